// Package servertest gives tests the real servers of package servers.
//
// Postgres and Kafka are shared: one server per test process, started by the first test that asks for it, and each
// test gets a database of its own, or names its own topics. [Main] stops them. A server that cannot be had is never a
// skipped test: the test fails and says what to install or to set.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// Main runs the tests of a package and then stops the servers that they shared:
//
//	func TestMain(m *testing.M) { servertest.Main(m) }
//
// Without it the servers still end with the process, but only after it and unseen.
func Main(m *testing.M) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// startLimit bounds the start of a shared server. It is not the test's context that does: the server outlives the test
// that happens to be the first.
const startLimit = 5 * time.Minute

// shared is a server that is started at most once per process. Whoever asks later gets the same one, or the error that
// the first one got.
type shared[T any] struct {
	once  sync.Once
	value T
	err   error
}

var (
	stopsMu sync.Mutex
	stops   []func() error
)

func (s *shared[T]) get(start func(context.Context) (T, error), stop func(T) error) (T, error) {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		if s.value, s.err = start(ctx); s.err != nil {
			return
		}
		stopsMu.Lock()
		defer stopsMu.Unlock()
		stops = append(stops, func() error { return stop(s.value) })
	})
	return s.value, s.err
}

func stopShared() error {
	stopsMu.Lock()
	defer stopsMu.Unlock()
	var errs []error
	for _, stop := range stops {
		errs = append(errs, stop())
	}
	stops = nil
	return errors.Join(errs...)
}
