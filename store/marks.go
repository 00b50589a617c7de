package store

import (
	"context"
	"math"
	"time"
)

// Forever is how long marks are kept that are never removed.
const Forever time.Duration = math.MaxInt64

// Scope is the interned name of a consumer. Two consumers of one message are two
// scopes, so each of them has its effect.
type Scope int32

// Mark is the fact "the consumer of this scope has done the message with this key".
type Mark struct {
	Scope Scope
	Key   Key
	// Time is the message's own time, where it has one. Removal of old marks follows
	// it; the clock of the process that consumes never decides anything.
	Time time.Time
	// Fingerprint, where it is not zero, is a digest of content that has to be the same
	// whenever the key is.
	Fingerprint ID
	// Order, where it is not zero, names the ordering key that the message belongs to.
	Order ID
	// Place is where the message lies. Only a store that keeps positions looks at it.
	Place *Place
}

// OwnTime is the time by which the mark is removed one day: that of its key where it has one,
// otherwise that of the message. The zero Time means that the store's clock decides.
func (m *Mark) OwnTime() time.Time {
	if at, ok := m.Key.Time(); ok {
		return at
	}
	return m.Time
}

// Status is what a store says of a mark.
type Status uint8

const (
	// New: the mark was not there and is now part of the open transaction.
	New Status = iota + 1
	// Seen: an earlier transaction committed the mark, or the same call already holds it.
	Seen
	// Mismatched: it was Seen, and with another fingerprint.
	Mismatched
	// Blocked: as New, but the message's ordering key is parked. Until the transaction ends
	// nobody can release the key.
	Blocked
	// Late: the mark was not set, because marks of its time have been removed and nobody can
	// tell whether it was among them.
	Late
)

func (s Status) String() string {
	switch s {
	case New:
		return "new"
	case Seen:
		return "seen"
	case Mismatched:
		return "mismatched"
	case Blocked:
		return "blocked"
	case Late:
		return "late"
	default:
		return "no status"
	}
}

// End is how a transaction ended, as far as anybody can know.
type End uint8

const (
	// Committed: the store said so.
	Committed End = iota + 1
	// RolledBack: the store said so, or COMMIT was never sent.
	RolledBack
	// Unknown: COMMIT was sent and its answer did not come. Never acknowledge the
	// message, never assume that nothing happened: deliver it again and let the mark
	// decide.
	Unknown
)

func (e End) String() string {
	switch e {
	case Committed:
		return "committed"
	case RolledBack:
		return "rolled back"
	case Unknown:
		return "unknown"
	default:
		return "not ended"
	}
}

// Marks is a store that can mark inside the transaction in which the handler works.
// TTx is what the handler is given to work with. Implementations are safe for
// concurrent use.
type Marks[TTx any] interface {
	// Scope returns the scope of a consumer's name and stores the name, and how long the
	// consumer wants its marks kept: at least a millisecond, or [Forever]. Where two processes
	// disagree, the last one to ask has it. It opens no transaction of the caller's and may be
	// called at any moment; implementations remember the answer. It is also where a missing
	// table or an unreachable store shows first, and says what to do about it.
	Scope(ctx context.Context, consumer string, keep time.Duration) (Scope, error)

	// Begin opens a transaction on one connection and sets the marks in it, in one
	// round trip where the store can. The statuses are in the order of the marks; of
	// equal marks in one call the first may be New or Blocked and the others are Seen or
	// Mismatched.
	//
	// The marks are the caller's again when the call returns, here and in Next.
	//
	// A rival that holds one of the marks in an open transaction is waited for, within
	// the store's lock limit; past that the error has [FaultBusy]. When it commits, the
	// mark is Seen; when it rolls back, New. On an error nothing is left open.
	Begin(ctx context.Context, marks []Mark) (Unit[TTx], []Status, error)

	// Fault says whose fault an error is that came from Scope, Begin, Commit or Next.
	Fault(err error) Fault
}

// Unit is one open transaction after another on one connection. It is used by one
// goroutine at a time and must be ended by Commit or Rollback. A Commit, Rollback or
// Next that fails has ended it as well.
type Unit[TTx any] interface {
	// Tx is what the handler works with, valid until the transaction ends. Its own
	// commit and rollback, where it has them, are refused.
	Tx() TTx

	// Commit ends the transaction. The error is nil exactly when the end is Committed.
	// A context that ends while COMMIT is under way makes the end Unknown, so hand in
	// one that outlives the message's.
	Commit(ctx context.Context) (End, error)

	// Next commits, begins the next transaction on the same connection and sets its
	// marks, in one round trip where the store can.
	//
	// The End belongs to the transaction that was open. Where it is Committed and the
	// error is not nil, that one is safe and only the next could not be opened.
	Next(ctx context.Context, marks []Mark) (End, []Status, error)

	// Fault says whose fault an error is that the handler returned, in the light of what
	// became of its transaction. Ask before Rollback.
	Fault(err error) Fault

	// Rollback undoes the transaction and gives the connection back. It is safe after
	// the unit has ended, where it does nothing.
	Rollback(ctx context.Context) error
}

// TxMarker marks inside a transaction that the caller began and will end. It is for
// programs that already have a transaction in hand; a rival is waited for as in
// [Marks].Begin.
type TxMarker[TTx any] interface {
	MarkTx(ctx context.Context, tx TTx, marks []Mark) ([]Status, error)
}
