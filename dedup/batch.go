package dedup

import (
	"context"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

// ProcessBatch implements [BatchProcessor]: one transaction, one round trip for all marks.
// There is no savepoint per message: a batch that fails is rolled back whole and its
// parts are tried, which costs only batches that fail.
func (g *TxGuard[TTx]) ProcessBatch(ctx context.Context, ms []Message) []Result {
	began := time.Now()
	results := g.processBatch(ctx, ms)
	g.observe(ctx, began, ms, results)
	return results
}

func (g *TxGuard[TTx]) processBatch(ctx context.Context, ms []Message) (results []Result) {
	if len(ms) == 0 {
		return nil
	}
	scope, err := g.scope(ctx)
	if err != nil {
		return []Result{g.failed(ctx, err, g.marks.Fault(err))}
	}
	room := g.takeRoom(len(ms))
	defer g.giveRoom(room)
	defer func() { g.note(ctx, scope, ms, room.places, results) }()
	results = make([]Result, 0, len(ms))
	for i := range ms {
		if err := g.identify(scope, &ms[i], placeAt(room.places, i), &room.ids[i]); err != nil {
			results = g.batch(ctx, room, room.ids[:i], results)
			if len(results) == i && settled(results) {
				results = append(results, Result{Failed, store.FaultHandler, err})
			}
			return results
		}
	}
	return g.batch(ctx, room, room.ids, results)
}

// batch appends the results of the messages to those given. It stops behind the first one
// that is not settled.
func (g *TxGuard[TTx]) batch(ctx context.Context, room *room, ids []identified, results []Result) []Result {
	if len(ids) == 0 {
		return results
	}
	if g.fences != nil {
		g.known.settled(room.places, results) // of parts that were committed before this one
		g.known.tell(room.places[len(results):])
	}
	statuses, culprit, r := g.together(ctx, room, ids)
	if r.Outcome == Applied {
		return appendResults(results, statuses)
	}
	if len(ids) == 1 || r.Outcome == Unknown || !divisible(r.Fault) {
		return append(results, r)
	}
	// A message that failed beside others is judged alone, because the others may have been
	// the reason: those before it go together, then it goes, then those behind it.
	split := [][]identified{ids[:len(ids)/2], ids[len(ids)/2:]}
	if culprit != nobody {
		split = [][]identified{ids[:culprit], ids[culprit : culprit+1], ids[culprit+1:]}
	}
	for _, part := range split {
		results = g.batch(ctx, room, part, results)
		if !settled(results) {
			return results
		}
	}
	return results
}

// divisible: in a smaller batch the others may get through.
func divisible(f store.Fault) bool {
	return f == store.FaultHandler || f == store.FaultBusy || f == store.FaultConflict
}

// together handles messages in one transaction. The result speaks for all of them;
// statuses are those of the marks when it is Applied, and culprit is the index of the
// message whose handler failed, if that is known.
func (g *TxGuard[TTx]) together(ctx context.Context, room *room, ids []identified) (statuses []store.Status, culprit int, r Result) {
	for tries := 0; ; tries++ {
		statuses, culprit, r = g.tryTogether(ctx, room, ids)
		if !g.again(ctx, r, tries) {
			return statuses, culprit, r
		}
	}
}

func (g *TxGuard[TTx]) tryTogether(ctx context.Context, room *room, ids []identified) ([]store.Status, int, Result) {
	unit, statuses, err := g.marks.Begin(ctx, room.marksOf(ids))
	if err != nil {
		return nil, nobody, g.failed(ctx, err, g.marks.Fault(err))
	}
	defer func() { _ = unit.Rollback(ctx) }() // does nothing after the commit

	if i := slices.IndexFunc(statuses, refused); i >= 0 {
		return nil, i, refusal(statuses[i], &ids[i])
	}
	// Where a position is kept it passes duplicates, too.
	if g.fences == nil && !slices.ContainsFunc(statuses, func(s store.Status) bool { return s != store.Seen }) {
		return statuses, nobody, Result{Outcome: Applied}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, nobody, Result{Failed, store.FaultCanceled, err}
	}
	var rs runs
	if fresh, at := onlyNew(ids, statuses); len(fresh) > 0 {
		if i, err := g.handle(ctx, unit.Tx(), g.given(make([]Message, 0, len(fresh)), fresh), &rs); err != nil {
			if i != nobody && at != nil {
				i = at[i]
			}
			return nil, i, g.handlerFailed(ctx, err, unit.Fault(err))
		}
	}
	for i, s := range statuses {
		if s != store.Blocked {
			continue
		}
		if err := g.park(ctx, unit.Tx(), &ids[i]); err != nil {
			return nil, i, g.failed(ctx, err, unit.Fault(err))
		}
	}
	limited, cancel := g.commitContext(ctx)
	defer cancel()
	end, err := unit.Commit(limited)
	if end != store.Committed {
		return nil, nobody, g.notCommitted(ctx, end, err)
	}
	rs.committed()
	return statuses, nobody, Result{Outcome: Applied}
}

// onlyNew returns the messages to run and where each of them stands among all; nil where that is
// where it stood.
func onlyNew(ids []identified, statuses []store.Status) (fresh []identified, at []int) {
	if !slices.ContainsFunc(statuses, func(s store.Status) bool { return s != store.New }) {
		return ids, nil // the usual case
	}
	fresh, at = make([]identified, 0, len(ids)), make([]int, 0, len(ids))
	for i, s := range statuses {
		if s == store.New {
			fresh, at = append(fresh, ids[i]), append(at, i)
		}
	}
	return fresh, at
}

func appendResults(results []Result, statuses []store.Status) []Result {
	for _, s := range statuses {
		r := Result{Outcome: Duplicate}
		switch s {
		case store.New:
			r.Outcome = Applied
		case store.Blocked:
			r.Outcome = Parked
		}
		results = append(results, r)
	}
	return results
}

// settled looks at the last result only: the ones before it are, or it would not be there.
func settled(results []Result) bool {
	return len(results) == 0 || results[len(results)-1].Outcome.Settled()
}
