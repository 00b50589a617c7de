package store

import (
	"errors"
	"time"
)

// What an error says about the next attempt is said in the same way on the way in and on the way
// out, so that either half understands the other: a handler that publishes for itself and returns
// the publisher's error, and a publisher that hands its events to a handler. Users write it as
// dedup.Permanent in a handler and as outbox.Permanent in a publisher; these are the same.

// Permanent marks an error as one that no further attempt can mend: what it is about is set aside at
// once, a message among the dead letters, an event parked in its outbox. The text, and what
// [errors.Is] and [errors.As] find, are those of err. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent tells whether err, or one that it wraps, came from [Permanent]. Nothing that is put
// around such an error takes that back; whoever knows better returns an error that does not wrap it.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// RetryAfter asks that the next attempt be made no sooner than after d. Whether there is one, and
// whether this one counts, it leaves to the rest of the error. It is a wish: whoever makes the
// next attempt may wait longer, and bounds what it takes from strangers. The text, and what
// [errors.Is] and [errors.As] find, are those of err. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, d}
}

// RetryDelay returns what [RetryAfter] asked for, of several the outermost, and false where nothing
// in err came from there.
func RetryDelay(err error) (time.Duration, bool) {
	var r *retryAfterError
	if !errors.As(err, &r) {
		return 0, false
	}
	return r.after, true
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type retryAfterError struct {
	err   error
	after time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }
