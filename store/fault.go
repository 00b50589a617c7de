package store

import "errors"

// Fault is whose fault an error is. It decides whether a failure uses up one of the
// message's attempts and whether the same thing is tried again at once.
type Fault uint8

const (
	// FaultHandler: the handler or the message. It uses up an attempt.
	FaultHandler Fault = iota + 1
	// FaultConflict: the store refused to serialise two transactions (in Postgres 40001,
	// 40P01). The whole transaction, handler included, is run again at once, a few times.
	FaultConflict
	// FaultBusy: somebody else holds the key or the lock and the wait limit has passed.
	FaultBusy
	// FaultOutage: the store cannot be reached, is shutting down or has no room.
	FaultOutage
	// FaultSetup: the store is there but not ready for use: tables are missing or the role
	// may not use them. Nothing gets better by trying; a person is needed.
	FaultSetup
	// FaultCanceled: the caller's context ended. Nobody has failed.
	FaultCanceled
)

func (f Fault) String() string {
	switch f {
	case FaultHandler:
		return "handler"
	case FaultConflict:
		return "conflict"
	case FaultBusy:
		return "busy"
	case FaultOutage:
		return "outage"
	case FaultSetup:
		return "setup"
	case FaultCanceled:
		return "canceled"
	default:
		return "no fault"
	}
}

// Errors that any store returns, told apart with [errors.Is].
var (
	// ErrLost: the lease, the slot or the position was taken over by somebody else. What its
	// former holder asked for was not done.
	ErrLost = errors.New("lost to another holder")

	// ErrEnded: the unit's transaction has ended already.
	ErrEnded = errors.New("transaction has ended")

	// ErrTxControl: a handler tried to end the transaction it was lent, or has done so
	// behind the store's back.
	ErrTxControl = errors.New("the transaction belongs to the guard: return nil to commit it, an error to roll it back")

	// ErrNotFound: there is nothing under that id.
	ErrNotFound = errors.New("not found")

	// ErrBehind: an earlier message of the same ordering key has to go first.
	ErrBehind = errors.New("an earlier letter of the same ordering key is there")
)
