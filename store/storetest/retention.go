package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// RetentionHarness hands over a store that removes old marks.
type RetentionHarness[TTx any] struct {
	// New makes an empty place that nobody else uses, for the length of one case.
	New func(t *testing.T) RetentionPlace[TTx]

	// NoTxMarker declares that the store does not implement [store.TxMarker].
	NoTxMarker bool

	// Around runs a case, in a synctest bubble for instance. Nil runs it as it is.
	Around func(t *testing.T, test func(t *testing.T))
}

// RetentionPlace is where the marks of one case are kept. Every store that it opens implements
// [store.Retention]. The store's clock shows about the time of the process.
type RetentionPlace[TTx any] struct {
	MarksPlace[TTx]

	// Purge removes what may be removed, all of it, and returns when it is done.
	Purge func(ctx context.Context) error
}

// TestRetention holds a store to the contract of [store.Retention], and to what [store.Late] means.
func TestRetention[TTx any](t *testing.T, h RetentionHarness[TTx]) {
	t.Helper()
	open := func(t *testing.T) *agesCase[TTx] {
		p := h.New(t)
		return &agesCase[TTx]{&marksCase[TTx]{p.MarksPlace}, p.Purge}
	}
	examine(t, slices.Concat(removalRules[TTx](), lateRules[TTx]()), h.Around, open)
	if h.NoTxMarker {
		t.Run("TxMarker", func(t *testing.T) { t.Skip("the harness declares NoTxMarker") })
		return
	}
	examine(t, txLateRules[TTx](), h.Around, open)
}

type agesCase[TTx any] struct {
	*marksCase[TTx]
	purgeAll func(ctx context.Context) error
}

type agesRule[TTx any] = rule[*agesCase[TTx]]

// agesStore is a store opened by a case of retention.
type agesStore[TTx any] struct {
	*marksStore[TTx]
	c         *agesCase[TTx]
	retention store.Retention
	now       time.Time
}

const (
	day  = 24 * time.Hour
	kept = 30 * day
)

// openAges opens a store whose consumer keeps its marks for some time.
func (c *agesCase[TTx]) openAges(e *exam, keep time.Duration) *agesStore[TTx] {
	e.Helper()
	s := &marksStore[TTx]{exam: e, marksCase: c.marksCase, Marks: c.Open()}
	r, ok := s.Marks.(store.Retention)
	if !ok {
		e.failf("the store does not implement Retention")
	}
	a := &agesStore[TTx]{s, c, r, time.Now().Truncate(time.Millisecond)}
	a.scope = a.keeps(examConsumer, keep)
	return a
}

func (s *agesStore[TTx]) keeps(name string, keep time.Duration) store.Scope {
	s.Helper()
	type answer struct {
		store.Scope
		error
	}
	a := within(s.exam, "Scope", func(ctx context.Context) answer {
		id, err := s.Marks.Scope(ctx, name, keep)
		return answer{id, err}
	})
	s.check(fmt.Sprintf("Scope(%q, %s)", name, keep), a.error)
	return a.Scope
}

// pair are two marks of one age, one with the time in its key and one without.
func (s *agesStore[TTx]) pair(age time.Duration, name ...any) []store.Mark {
	at := s.now.Add(-age)
	plain := s.mark(slices.Concat(name, []any{" plain ", age})...)
	plain.Time = at
	return []store.Mark{s.timed(at, name...), plain}
}

// are marks all, commits, and compares: each of them has the status.
func (s *agesStore[TTx]) are(want store.Status, marks ...store.Mark) {
	s.Helper()
	for _, m := range marks {
		s.begin(want, m).commit()
	}
	if want == store.New {
		want = store.Seen
	}
	s.beginAll(marks, slices.Repeat([]store.Status{want}, len(marks))).commit()
}

// reached says that a partition has come to messages of an age.
func (s *agesStore[TTx]) reached(partition int, age time.Duration) {
	s.Helper()
	s.reachedAll(s.scope, store.Reach{Log: "log", Partition: partition, Newest: s.now.Add(-age)})
}

func (s *agesStore[TTx]) reachedAll(scope store.Scope, all ...store.Reach) {
	s.Helper()
	s.check("Reached", within(s.exam, "Reached", func(ctx context.Context) error { return s.retention.Reached(ctx, scope, all) }))
}

func (s *agesStore[TTx]) purge() {
	s.Helper()
	s.check("Purge", within(s.exam, "Purge", s.c.purgeAll))
}
