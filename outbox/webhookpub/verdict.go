package webhookpub

import (
	"fmt"
	"net/http"

	"github.com/semel-dev/semel/outbox"
)

// StatusError is the error of an attempt that was answered, but not with 200 to 299.
type StatusError struct {
	Status int
	// Body is the beginning of the answer, as in [Attempt].
	Body string
}

func (e *StatusError) Error() string {
	if e.Body == "" {
		return fmt.Sprintf("the answer is %d", e.Status)
	}
	return fmt.Sprintf("the answer is %d: %.200q", e.Status, e.Body)
}

// GoneError is the error of an endpoint that wants no more webhooks: it answered 410, or
// with the header webhook-delivery: disable. Switch it off, so that [Endpoints] answers
// [ErrNoEndpoint]; until then every event is refused like this one.
type GoneError struct{ StatusError }

func (e *GoneError) Error() string {
	return "the endpoint wants no more webhooks: " + e.StatusError.Error()
}

// deliveryHeader is how a receiver gives orders to Svix, and so to us.
const deliveryHeader = "webhook-delivery"

func wantsDisable(res *http.Response) bool {
	return res.StatusCode == http.StatusGone || res.Header.Get(deliveryHeader) == "disable"
}

// verdict judges an answer.
func (p *Publisher) verdict(res *http.Response, a *Attempt) error {
	status := StatusError{Status: res.StatusCode, Body: a.Body}
	switch {
	case res.StatusCode >= 200 && res.StatusCode <= 299:
		return nil
	case a.Disable:
		return outbox.Permanent(&GoneError{status})
	case res.Header.Get(deliveryHeader) == "abort-message":
		return outbox.Permanent(&status)
	}
	var err error = &status
	if !troubled(res.StatusCode) {
		err = outbox.Refused(err)
	}
	if !p.anyRetryAfter && res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
		return err
	}
	if d, ok := retryAfter(res.Header.Get("Retry-After"), p.now(), p.maxRetryAfter); ok {
		err = outbox.RetryAfter(d, err)
	}
	return err
}

// troubled tells an answer that is about the endpoint's condition and not about the event. A
// 500 is not among them: the receiver's program has looked at this event and failed, and
// if it always does, the event must not be sent for ever.
func troubled(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
