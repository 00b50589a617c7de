package webhooksub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
)

// Handler receives the webhooks of one source. It is safe for concurrent use.
type Handler struct {
	config
	source    string
	verifier  Verifier
	processor dedup.Processor
	policy    consumers.Policy
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler for the webhooks of a source. The source's name is part of the
// messages' keys and must stay the same over deploys. Where the processor is a
// [dedup.Burier], as guards are, messages that fail for good are buried. There is no way to
// leave out the verifier.
//
// Mount it on a path of its own, without a middleware that reads or changes the body, and ask the
// guard's Check once when the program starts.
func New(source string, v Verifier, p dedup.Processor, opts ...Option) (*Handler, error) {
	h := &Handler{config: defaults(), source: source, verifier: v, processor: p, policy: consumers.DefaultPolicy()}
	// Attempts are the sender's to count.
	h.policy.MaxAttempts = math.MaxInt
	for _, o := range opts {
		o.apply(&h.config)
	}
	if err := checkSource(source); err != nil {
		return nil, fmt.Errorf("webhooksub: new: %w", err)
	}
	switch {
	case v == nil:
		return nil, fmt.Errorf("webhooksub: new: source %s: the verifier is nil: Standard makes one of your secrets; nothing is received unverified", source)
	case p == nil:
		return nil, fmt.Errorf("webhooksub: new: source %s: the processor is nil: dedup.NewTx makes one", source)
	}
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("webhooksub: new: source %s: %w", source, err)
	}
	return h, nil
}

// ServeHTTP receives one webhook.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	d := Delivery{Source: h.source}
	a := h.serve(w, r, &d)
	a.write(w)
	d.Status, d.Took = a.status, time.Since(began)
	h.record(r.Context(), d)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, d *Delivery) answer {
	if r.Method != http.MethodPost {
		d.Err = fmt.Errorf("the method is %.20q", r.Method)
		return answer{status: http.StatusMethodNotAllowed, header: map[string]string{"Allow": http.MethodPost}}
	}
	body, err := h.read(w, r)
	if err != nil {
		d.Err = err
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			return answer{status: http.StatusRequestEntityTooLarge}
		}
		return answer{status: http.StatusBadRequest}
	}
	id, err := h.verifier.Verify(r.Header, body, h.now())
	if err != nil || id == "" {
		d.Err = errors.Join(errNotBelieved, err)
		return answer{status: http.StatusUnauthorized}
	}
	m := h.message(r, id, body)
	d.ID, d.Type = id, m.Topic
	return h.process(r.Context(), m, d)
}

var errNotBelieved = errors.New("not verified")

// read reads the body up to the limits. What Content-Length says can only make it fail
// earlier.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > h.maxBody {
		return nil, fmt.Errorf("body: %w", &http.MaxBytesError{Limit: h.maxBody})
	}
	control := http.NewResponseController(w)
	// A writer that cannot set a deadline belongs to a test, or to a wrapper whose limits
	// hold instead.
	deadline := control.SetReadDeadline(time.Now().Add(h.readLimit))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxBody))
	if err != nil {
		// The deadline stays, or the server would wait for the rest before it answers.
		return nil, fmt.Errorf("body: %w", err)
	}
	if deadline == nil {
		// From here on the server reads only to notice that the sender has hung up.
		_ = control.SetReadDeadline(time.Time{})
	}
	return body, nil
}

// process does the work and decides on the answer.
func (h *Handler) process(ctx context.Context, m dedup.Message, d *Delivery) answer {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.processLimit)
	defer cancel()
	r := h.processor.Process(ctx, m)
	d.Outcome, d.Err = r.Outcome, r.Err
	if h.policy.Decide(r, 0, 1).Action != consumers.Bury {
		return h.answer(r)
	}
	burier, ok := h.processor.(dedup.Burier)
	if !ok {
		return keepIt()
	}
	reason := r.Err
	r = burier.Bury(ctx, m, reason)
	d.Outcome = r.Outcome
	switch {
	case r.Outcome.Settled():
		return h.answer(r)
	case dedup.IsPermanent(r.Err):
		// A message without a key has no mark under which it could be buried once.
		return keepIt()
	default:
		d.Err = errors.Join(reason, r.Err)
		return h.unavailable()
	}
}
