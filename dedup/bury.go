package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// Bury implements [Burier]. The dead letter and the mark commit together: a message that
// was given up is done, and delivered again it is a duplicate. One without a key is
// marked by its place in the log.
//
// One that is [Late] is quarantined, one that is [Mismatched] is kept beside the one that has its
// key, and one whose ordering key is parked goes behind what it waits for.
func (g *TxGuard[TTx]) Bury(ctx context.Context, m Message, reason error) Result {
	began := time.Now()
	r := g.bury(ctx, m, reason)
	g.observe(ctx, began, []Message{m}, []Result{r})
	return r
}

func (g *TxGuard[TTx]) bury(ctx context.Context, m Message, reason error) Result {
	if g.burier == nil {
		return Result{Failed, store.FaultSetup, fmt.Errorf("dedup: bury: %T keeps no dead letters", g.marks)}
	}
	scope, err := g.scope(ctx)
	if err != nil {
		return g.failed(ctx, err, g.marks.Fault(err))
	}
	id, err := g.identifyAnyhow(scope, &m)
	if err != nil {
		return Result{Failed, store.FaultHandler, err}
	}
	if id.mark.Place != nil {
		id.mark.Place.Known, _ = g.known.before(id.mark.Place)
	}
	for tries := 0; ; tries++ {
		r := g.tryBury(ctx, id, reason)
		if !g.again(ctx, r, tries) {
			if id.mark.Place != nil {
				g.known.settled([]store.Place{*id.mark.Place}, []Result{r})
			}
			return r
		}
	}
}

func (g *TxGuard[TTx]) tryBury(ctx context.Context, id identified, reason error) Result {
	seal([]identified{id})
	unit, statuses, err := g.marks.Begin(ctx, []store.Mark{id.mark})
	if err != nil {
		return g.failed(ctx, err, g.marks.Fault(err))
	}
	state, key := store.Dead, id.mark.Key
	if refused(statuses[0]) {
		// The key's own mark is taken, or was; the letter is marked by what else tells it apart.
		_ = unit.Rollback(ctx)
		id, state = apart(statuses[0], id)
		if unit, statuses, err = g.marks.Begin(ctx, []store.Mark{id.mark}); err != nil {
			return g.failed(ctx, err, g.marks.Fault(err))
		}
	}
	defer func() { _ = unit.Rollback(ctx) }() // does nothing after the commit
	switch statuses[0] {
	case store.Seen:
		if g.fences == nil {
			return Result{Outcome: Duplicate}
		}
		return g.conclude(ctx, unit, Duplicate) // Where a position is kept it passes duplicates, too.
	case store.Blocked:
		state = store.Waiting
	}
	letter := g.letter(id, state, reason)
	if state == store.Quarantined {
		letter.Key = key // it is still the same message, and what it causes has the same ids
	}
	if err := g.burier.BuryTx(ctx, unit.Tx(), letter); err != nil {
		return g.failed(ctx, err, unit.Fault(err))
	}
	return g.conclude(ctx, unit, Buried)
}

// conclude commits what makes the outcome.
func (g *TxGuard[TTx]) conclude(ctx context.Context, unit store.Unit[TTx], o Outcome) Result {
	limited, cancel := g.commitContext(ctx)
	defer cancel()
	if end, err := unit.Commit(limited); end != store.Committed {
		return g.notCommitted(ctx, end, err)
	}
	return Result{Outcome: o}
}

var errWaits = errors.New("not tried: its ordering key is parked")

// park keeps a message behind the dead letter that its ordering key waits for.
func (g *TxGuard[TTx]) park(ctx context.Context, tx TTx, id *identified) error {
	if err := g.complete(id); err != nil {
		return err
	}
	d := g.letter(*id, store.Waiting, errWaits)
	d.Attempts = 0
	return g.burier.BuryTx(ctx, tx, d)
}

const (
	longestKeyText = 256
	longestReason  = 16 << 10
)

func (g *TxGuard[TTx]) letter(id identified, state store.LetterState, reason error) store.DeadLetter {
	m := id.m
	return store.DeadLetter{
		Consumer: g.consumer, Key: id.mark.Key, KeyText: id.text[:min(len(id.text), longestKeyText)],
		State: state, Order: id.order,
		Broker: m.Position.Broker, Topic: m.Topic, Log: m.Position.Log,
		Partition: m.Position.Partition, Offset: m.Position.Offset, Time: m.Position.Time,
		MessageKey: m.Key, Headers: m.Headers, Body: m.Body,
		Reason: reasonText(reason), Attempts: m.Attempt,
	}
}

func reasonText(reason error) string {
	text := "given up without a reason"
	if reason != nil {
		text = reason.Error()
	}
	var p *PanicError
	if errors.As(reason, &p) {
		text += "\n\n" + string(p.Stack)
	}
	return text[:min(len(text), longestReason)]
}
