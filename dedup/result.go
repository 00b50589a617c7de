package dedup

import (
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// Outcome is what became of a message.
type Outcome uint8

const (
	// Applied: the handler's effect and the mark have been committed just now.
	Applied Outcome = iota + 1
	// Duplicate: the effect was committed earlier. Nothing ran.
	Duplicate
	// Buried: the message and its mark have been committed as a dead letter.
	Buried
	// Parked: the message's ordering key is parked, so the message and its mark have been
	// committed behind the dead letter that the key waits for.
	Parked
	// Failed: everything was rolled back.
	Failed
	// Unknown: COMMIT was sent and not answered. The message must be delivered again; the
	// mark will tell.
	Unknown
	// Mismatched: the key was done earlier with other content; the error is a
	// [MismatchError]. Nothing ran. To bury it is to keep it as a letter that conflicts.
	Mismatched
	// Late: the message is older than the marks that were removed; the error is [ErrLate].
	// Nothing ran. To bury it is to quarantine it.
	Late
)

func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case Duplicate:
		return "duplicate"
	case Buried:
		return "buried"
	case Parked:
		return "parked"
	case Failed:
		return "failed"
	case Unknown:
		return "unknown"
	case Mismatched:
		return "mismatched"
	case Late:
		return "late"
	default:
		return "no outcome"
	}
}

// Settled says that the message needs no further delivery: acknowledge it.
func (o Outcome) Settled() bool {
	return o == Applied || o == Duplicate || o == Buried || o == Parked
}

// Result is what a guard answers for one message.
type Result struct {
	Outcome Outcome
	// Fault says whose fault Err is; zero when the outcome is settled.
	Fault store.Fault
	// Err is nil when the outcome is settled.
	Err error
}

// Permanent marks an error as one that no further attempt can mend: the message goes
// to the dead letters at once. Permanent(nil) is nil. The error of a publisher that outbox.Permanent
// has marked says the same, so a handler that publishes for itself may return it as it is.
func Permanent(err error) error { return store.Permanent(err) }

// IsPermanent tells whether err, or one that it wraps, came from [Permanent], is an error
// about the message's key, a [MismatchError] or [ErrLate].
func IsPermanent(err error) bool {
	var k *KeyError
	var m *MismatchError
	return store.IsPermanent(err) || errors.As(err, &k) || errors.As(err, &m) || errors.Is(err, ErrLate)
}

// RetryAfter asks for the next attempt no sooner than after d. It still is a failed
// attempt. RetryAfter(d, nil) is nil. What outbox.RetryAfter asked for counts likewise.
func RetryAfter(d time.Duration, err error) error { return store.RetryAfter(d, err) }

// RetryDelay returns what [RetryAfter] asked for, of several the outermost.
func RetryDelay(err error) (time.Duration, bool) { return store.RetryDelay(err) }

// PanicError is the error of a handler that panicked. The panic is contained: the
// transaction is rolled back and the message counts as a failed attempt.
type PanicError struct {
	// Value is what the handler panicked with.
	Value any
	// Stack is where.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap returns the panic's value where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
