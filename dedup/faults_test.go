package dedup_test

import (
	"context"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// A deadline that the handler has set itself is its own failure: were it an outage, the message
// would come for ever.
func TestHandlersOwnContextIsTheHandlers(t *testing.T) {
	t.Parallel()
	h := func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		own, cancel := context.WithCancel(ctx)
		cancel()
		return add(own, tx, m)
	}
	g := guardOn(t, newBent(), h)
	wantResult(t, g.Process(t.Context(), message("a")), dedup.Failed, store.FaultHandler)
	wantResult(t, g.ProcessBatch(t.Context(), messages("a"))[0], dedup.Failed, store.FaultHandler)
}

func TestConflictsAreRunAgainAFewTimes(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"Process", "ProcessBatch"} {
		for _, c := range []struct {
			conflicts, retries int
			want               dedup.Outcome
			fault              store.Fault
		}{
			{5, 5, dedup.Applied, 0}, {6, 5, dedup.Failed, store.FaultConflict},
			{1, 0, dedup.Failed, store.FaultConflict}, {3, 3, dedup.Applied, 0},
		} {
			runs := 0
			h := func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
				runs++
				if err := add(ctx, tx, m); err != nil {
					return err
				}
				if runs <= c.conflicts {
					return &faulty{store.FaultConflict}
				}
				return nil
			}
			b := newBent()
			g := guardOn(t, b, h, dedup.WithConflictRetries(c.retries))
			var r dedup.Result
			if how == "Process" {
				r = g.Process(t.Context(), message("a"))
			} else {
				r = g.ProcessBatch(t.Context(), messages("a"))[0]
			}
			wantResult(t, r, c.want, c.fault)
			if want := min(c.conflicts, c.retries) + 1; runs != want {
				t.Errorf("%s: the handler ran %d times, want %d", how, runs, want)
			}
			b.idle(t)
		}
	}
	// At the commit and at the beginning as well.
	b := newBent()
	b.commit = func(n int, real func() (store.End, error)) (store.End, error) {
		if n <= 2 {
			return store.RolledBack, &faulty{store.FaultConflict}
		}
		return real()
	}
	b.begin = func(n int) error {
		if n == 1 {
			return &faulty{store.FaultConflict}
		}
		return nil
	}
	wantResult(t, guardOn(t, b, add).Process(t.Context(), message("a")), dedup.Applied, 0)
	wantEffects(t, b, map[string]int64{"a": 1})
	wantRecord(t, b, "begin: fault: conflict", "begin [new]", "commit: rolled back", "begin [new]", "commit: rolled back", "begin [new]", "commit: committed")
}

// Every fault but a conflict is handed on at once.
func TestFaultsAreHandedOn(t *testing.T) {
	t.Parallel()
	for fault, want := range map[store.Fault]store.Fault{
		store.FaultHandler: store.FaultHandler, store.FaultBusy: store.FaultBusy, store.FaultOutage: store.FaultOutage, store.FaultSetup: store.FaultSetup,
		// The caller has not given up, so it was a limit of the store's: it did not answer.
		store.FaultCanceled: store.FaultOutage,
	} {
		b := newBent()
		b.begin = func(int) error { return &faulty{fault} }
		g := guardOn(t, b, add)
		wantResult(t, g.Process(t.Context(), message("a")), dedup.Failed, want)
		wantOutcomes(t, g.ProcessBatch(t.Context(), messages("a", "b")), "failed("+want.String()+")")
		wantResult(t, g.Bury(t.Context(), message("a"), nil), dedup.Failed, want)

		b = newBent()
		b.commit = func(int, func() (store.End, error)) (store.End, error) { return store.RolledBack, &faulty{fault} }
		g = guardOn(t, b, add)
		wantResult(t, g.Process(t.Context(), message("a")), dedup.Failed, want)
		wantResult(t, g.ProcessBatch(t.Context(), messages("a"))[0], dedup.Failed, want)
		wantResult(t, g.Bury(t.Context(), message("a"), nil), dedup.Failed, want)
		b.idle(t)
	}
}

// An unknown end says nothing of any message, whoever has caused it: nobody looks for one.
func TestUnknownEndDoesNotDivideABatch(t *testing.T) {
	t.Parallel()
	b := newBent()
	b.commit = func(_ int, real func() (store.End, error)) (store.End, error) {
		_, _ = real()
		return store.Unknown, &faulty{store.FaultHandler}
	}
	wantOutcomes(t, guardOn(t, b, add).ProcessBatch(t.Context(), messages("a", "b")), "unknown(handler)")
	if b.begins != 1 {
		t.Errorf("%d transactions were begun", b.begins)
	}
}

func TestUnknownEndIsNotSettled(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{false, true} {
		for _, how := range []string{"Process", "ProcessEach", "ProcessBatch"} {
			b := newBent()
			b.commit = func(n int, real func() (store.End, error)) (store.End, error) {
				if n > 1 {
					return real()
				}
				if stored {
					_, _ = real()
				}
				return store.Unknown, &faulty{store.FaultOutage}
			}
			g := guardOn(t, b, add)
			process := func() []dedup.Result {
				switch how {
				case "Process":
					return []dedup.Result{g.Process(t.Context(), message("a"))}
				case "ProcessEach":
					return g.ProcessEach(t.Context(), messages("a", "b"))
				default:
					return g.ProcessBatch(t.Context(), messages("a", "b"))
				}
			}
			wantOutcomes(t, process(), "unknown(outage)") // and nothing behind it was tried
			b.idle(t)
			r := process()
			if want := map[bool]dedup.Outcome{false: dedup.Applied, true: dedup.Duplicate}[stored]; r[0].Outcome != want {
				t.Errorf("%s, stored %t: again it is %s, want %s", how, stored, r[0].Outcome, want)
			}
			wantEffects(t, b, map[string]int64{"a": 1})
		}
	}
}

// COMMIT has a deadline of its own, and the message's context cannot cut it short.
func TestCommitOutlivesTheMessagesContext(t *testing.T) {
	t.Parallel()
	b := newBent()
	spy := &spyCommit{Marks: b}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), spyKey{}, "trace"))
	g := guardOn(t, spy, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		defer cancel()
		return add(ctx, tx, m)
	}, dedup.WithCommitLimit(time.Hour))
	wantResult(t, g.Process(ctx, message("a")), dedup.Applied, 0)
	if left := time.Until(spy.deadline); spy.err != nil || left < 59*time.Minute || left > time.Hour {
		t.Errorf("COMMIT's context has the error %v and %s left, want an hour", spy.err, left)
	}
	if spy.value != "trace" {
		t.Error("COMMIT's context has lost the message's values")
	}
}

type spyKey struct{}

type spyCommit struct {
	store.Marks[*memstore.Tx]
	deadline time.Time
	err      error
	value    any
}

func (s *spyCommit) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*memstore.Tx], []store.Status, error) {
	u, status, err := s.Marks.Begin(ctx, marks)
	return &spyUnit{u, s}, status, err
}

type spyUnit struct {
	store.Unit[*memstore.Tx]
	spy *spyCommit
}

func (u *spyUnit) Commit(ctx context.Context) (store.End, error) {
	u.spy.deadline, _ = ctx.Deadline()
	u.spy.err, u.spy.value = ctx.Err(), ctx.Value(spyKey{})
	return u.Unit.Commit(ctx)
}

func TestCheckReportsWhatIsWrongWithTheStore(t *testing.T) {
	t.Parallel()
	g := guardOn(t, newBent(), add)
	if err := g.Check(t.Context()); err != nil {
		t.Error(err)
	}
	missing := &noScope{bent: newBent()}
	g = guardOn(t, missing, add)
	if err := g.Check(t.Context()); err == nil || missing.Fault(err) != store.FaultSetup {
		t.Errorf("Check: %v", err)
	}
	wantResult(t, g.Process(t.Context(), message("a")), dedup.Failed, store.FaultSetup)
	wantOutcomes(t, g.ProcessEach(t.Context(), messages("a", "b")), "failed(setup)")
	wantOutcomes(t, g.ProcessBatch(t.Context(), messages("a", "b")), "failed(setup)")
	wantResult(t, g.Bury(t.Context(), message("a"), nil), dedup.Failed, store.FaultSetup)
	if g.ProcessEach(t.Context(), nil) != nil || g.ProcessBatch(t.Context(), nil) != nil {
		t.Error("no messages have results")
	}
}

type noScope struct{ *bent }

func (*noScope) Scope(context.Context, string, time.Duration) (store.Scope, error) {
	return 0, &faulty{store.FaultSetup}
}
