package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
	"github.com/semel-dev/semel/store/storetest"
)

// The exam runs in a bubble: time is free, and a moment's wait lasts exactly until every
// other goroutine is blocked.
func TestExamMarks(t *testing.T) {
	storetest.TestMarks(t, storetest.MarksHarness[*memstore.Tx]{
		Around: synctest.Test,
		New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[*memstore.Tx] {
			s := memstore.New(memstore.WithLockWait(lockWait))
			return placeOf(s, s)
		},
	})
}

// placeOf is the place of a view of the store.
func placeOf(s *memstore.Store, view store.Marks[*memstore.Tx]) storetest.MarksPlace[*memstore.Tx] {
	return storetest.MarksPlace[*memstore.Tx]{
		Open:    func() store.Marks[*memstore.Tx] { return view },
		Effects: func(name string) int { return int(s.Get(name)) },
		Effect: func(ctx context.Context, tx *memstore.Tx, name string) error {
			_, err := tx.Add(ctx, name, 1)
			return err
		},
		Spoil: func(ctx context.Context, tx *memstore.Tx) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, _ = tx.Add(ctx, "spoilt", 1)
		},
		InTx: func(ctx context.Context, fn func(tx *memstore.Tx) error) error {
			return s.InTx(ctx, func(_ context.Context, tx *memstore.Tx) error { return fn(tx) })
		},
	}
}

func TestExamLeases(t *testing.T) {
	storetest.TestLeases(t, storetest.LeasesHarness{
		Around: synctest.Test,
		New: func(t *testing.T) storetest.LeasesPlace {
			s := memstore.New()
			return storetest.LeasesPlace{Open: func() store.Leases { return s }}
		},
	})
}

func TestExamDeadLetters(t *testing.T) {
	storetest.TestDeadLetters(t, storetest.DeadLettersHarness[*memstore.Tx]{
		Around: synctest.Test,
		New: func(t *testing.T, lockWait time.Duration) storetest.DeadLettersPlace[*memstore.Tx] {
			s := memstore.New(memstore.WithLockWait(lockWait))
			p := placeOf(s, s)
			return storetest.DeadLettersPlace[*memstore.Tx]{Marks: s, Burier: s, Letters: s, Reviver: s, Effect: p.Effect, Effects: p.Effects}
		},
	})
}

func TestExamFences(t *testing.T) {
	storetest.TestFences(t, storetest.FencesHarness[*memstore.Tx]{
		Around: synctest.Test,
		New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[*memstore.Tx] {
			s := memstore.New(memstore.WithLockWait(lockWait))
			return placeOf(s, s.Fenced())
		},
	})
}

func TestExamFencesWithKeys(t *testing.T) {
	storetest.TestFences(t, storetest.FencesHarness[*memstore.Tx]{
		Around: synctest.Test,
		Keys:   true,
		New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[*memstore.Tx] {
			s := memstore.New(memstore.WithLockWait(lockWait))
			return placeOf(s, s.FencedMarks())
		},
	})
}

func TestExamAttempts(t *testing.T) {
	storetest.TestAttempts(t, storetest.AttemptsHarness{
		Around: synctest.Test,
		New: func(t *testing.T) storetest.AttemptsPlace {
			s := memstore.New()
			return storetest.AttemptsPlace{Open: func() storetest.AttemptsStore { return s }}
		},
	})
}

func TestExamRetention(t *testing.T) {
	storetest.TestRetention(t, storetest.RetentionHarness[*memstore.Tx]{
		Around: synctest.Test,
		New: func(t *testing.T) storetest.RetentionPlace[*memstore.Tx] {
			s := memstore.New()
			return storetest.RetentionPlace[*memstore.Tx]{
				MarksPlace: placeOf(s, s),
				Purge: func(ctx context.Context) error {
					_, err := s.Purge(ctx)
					return err
				},
			}
		},
	})
}
