package webhooksub

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
)

// HeaderDuplicate is "true" on the answer to a message that was done before.
const HeaderDuplicate = "webhook-duplicate"

// answer is what the sender gets. It has no body: a reason would help whoever is guessing.
type answer struct {
	status int
	header map[string]string
}

func (a answer) write(w http.ResponseWriter) {
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
}

// answer turns a result into an answer.
func (h *Handler) answer(r dedup.Result) answer {
	switch d := h.policy.Decide(r, 0, 1); {
	case r.Outcome == dedup.Duplicate:
		return answer{status: http.StatusOK, header: map[string]string{HeaderDuplicate: "true"}}
	case d.Action == consumers.Ack:
		return answer{status: http.StatusOK}
	case d.Action == consumers.Retry && d.Spent:
		a := answer{status: http.StatusInternalServerError}
		if asked, ok := dedup.RetryDelay(r.Err); ok {
			a.header = retryAfter(asked)
		}
		return a
	default:
		return h.unavailable()
	}
}

// unavailable asks the sender to come again: this is not about the message.
func (h *Handler) unavailable() answer {
	return answer{status: http.StatusServiceUnavailable, header: retryAfter(h.retryAfter)}
}

// keepIt leaves a message that fails for good with its sender, since there is no place for
// it here. Anything of 200 to 299 would lose it. The header keeps senders that know it
// from trying on.
func keepIt() answer {
	return answer{status: http.StatusUnprocessableEntity, header: map[string]string{"webhook-delivery": "abort-message"}}
}

// retryAfter rounds up to the whole seconds that the header has.
func retryAfter(d time.Duration) map[string]string {
	seconds := (max(d, 0) + time.Second - 1) / time.Second
	return map[string]string{"Retry-After": strconv.FormatInt(int64(seconds), 10)}
}

// record tells the log and the observer.
func (h *Handler) record(ctx context.Context, d Delivery) {
	log := h.log.With("source", d.Source, "status", d.Status)
	switch {
	case d.Outcome == 0:
		log.InfoContext(ctx, "webhook not accepted", "error", d.Err)
	case d.Outcome == dedup.Buried:
		log.ErrorContext(ctx, "webhook given up; it is among the dead letters", "id", d.ID, "type", d.Type, "error", d.Err)
	case d.Status == http.StatusUnprocessableEntity:
		log.ErrorContext(ctx, "webhook given up and left with its sender", "id", d.ID, "type", d.Type, "error", d.Err)
	case d.Status != http.StatusOK:
		log.WarnContext(ctx, "webhook not done; the sender should come again", "id", d.ID, "type", d.Type, "outcome", d.Outcome, "error", d.Err)
	}
	h.observe(ctx, d)
}
