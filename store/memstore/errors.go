package memstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/store"
)

// ErrFull: as many leases as [WithMaxLeases] allows are held or kept, and none has
// expired. It has FaultOutage: it passes as they do.
var ErrFull = errors.New("no room for another lease")

// failure is an error of the store's own, with whose fault it is.
type failure struct {
	fault store.Fault
	err   error
}

func (e *failure) Error() string { return "memstore: " + e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

func failf(f store.Fault, format string, args ...any) error {
	return &failure{f, fmt.Errorf(format, args...)}
}

// Fault implements [store.Marks]. It returns zero for nil.
func (s *Store) Fault(err error) store.Fault {
	var f *failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return f.fault
	case errors.Is(err, context.Canceled):
		return store.FaultCanceled
	default:
		// A deadline of a handler's own that passed, too: where it was the caller's, the
		// store's calls have said so with a failure.
		return store.FaultHandler
	}
}
