package dedup

import (
	"context"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/store"
)

// Replay runs the message of a dead letter again. The letter goes in the transaction of the
// handler: a crash leaves either the letter or the effect. The mark has been there since the message
// was buried, so deliveries of it stay duplicates.
//
// The outcome is Applied where the handler succeeded. It is Failed where it did not, and then the
// letter has one attempt more and the new reason; where an earlier letter of the same ordering
// key has to go first ([store.ErrBehind]); and where there is no such letter ([store.ErrNotFound]),
// as when it was run again just now.
func (g *TxGuard[TTx]) Replay(ctx context.Context, id int64) Result {
	letters, err := g.letters()
	if err != nil {
		return Result{Failed, store.FaultSetup, err}
	}
	for tries := 0; ; tries++ {
		r, ran := g.tryReplay(ctx, letters, id)
		if g.again(ctx, r, tries) {
			continue
		}
		if ran && r.Outcome == Failed && r.Fault == store.FaultHandler {
			if err := letters.FailDead(ctx, id, reasonText(r.Err)); err != nil {
				r.Err = errors.Join(r.Err, err)
			}
		}
		return r
	}
}

// tryReplay also says whether the handler ran.
func (g *TxGuard[TTx]) tryReplay(ctx context.Context, letters letters[TTx], id int64) (r Result, ran bool) {
	unit, d, err := letters.Revive(ctx, id)
	switch {
	case errors.Is(err, store.ErrBehind), errors.Is(err, store.ErrNotFound):
		return Result{Failed, store.FaultHandler, err}, false
	case err != nil:
		return g.failed(ctx, err, g.marks.Fault(err)), false
	}
	defer func() { _ = unit.Rollback(ctx) }() // does nothing after the commit
	if d.Consumer != g.consumer {
		return Result{Failed, store.FaultHandler, fmt.Errorf("dedup: replay: letter %d is one of consumer %q, not of %q", id, d.Consumer, g.consumer)}, false
	}
	var rs runs
	if _, err := g.handle(ctx, unit.Tx(), g.given(nil, []identified{revived(d)}), &rs); err != nil {
		return g.handlerFailed(ctx, err, unit.Fault(err)), true
	}
	limited, cancel := g.commitContext(ctx)
	defer cancel()
	if end, err := unit.Commit(limited); end != store.Committed {
		return g.notCommitted(ctx, end, err), true
	}
	rs.committed()
	return Result{Outcome: Applied}, true
}

// revived is the message as it was, so that what it causes has the ids that it would have had.
func revived(d store.DeadLetter) identified {
	m := Message{
		Position: Position{Broker: d.Broker, Log: d.Log, Partition: d.Partition, Offset: d.Offset, Time: d.Time},
		Topic:    d.Topic, Key: d.MessageKey, Headers: d.Headers, Body: d.Body, Attempt: d.Attempts + 1,
	}
	return identified{m: &m, text: d.KeyText, order: d.Order, mark: store.Mark{Key: d.Key}}
}

// Replayed says what became of the letters that were to run again.
type Replayed struct {
	// Applied is how many did.
	Applied int
	// Failed are those that did not, with what was said of them. Where a letter of an ordering key
	// fails, those behind it are not tried and not counted.
	Failed map[int64]error
}

// ReplayKey runs the letters of an ordering key in their order, the dead one first and then what
// waits behind it, each in a transaction of its own. With the last one the key is no longer
// parked. It stops at the first one that fails: the error is about that letter, and the key stays
// parked.
func (g *TxGuard[TTx]) ReplayKey(ctx context.Context, order []byte) (applied int, err error) {
	if len(order) == 0 {
		return 0, errors.New("dedup: replay: the ordering key is empty")
	}
	r, err := g.ReplayAll(ctx, store.LetterFilter{Order: order, States: []store.LetterState{store.Dead, store.Waiting}})
	for id, failure := range r.Failed {
		err = errors.Join(err, fmt.Errorf("letter %d: %w", id, failure))
	}
	return r.Applied, err
}

const replayPage = 100

// ReplayAll runs the letters that the filter takes, of this consumer, oldest first. One that fails does
// not hold up the others, but for those behind it. The error says why it ended before the
// last one: the context did, or the store failed.
func (g *TxGuard[TTx]) ReplayAll(ctx context.Context, f store.LetterFilter) (Replayed, error) {
	done := Replayed{Failed: map[int64]error{}}
	letters, err := g.letters()
	if err != nil {
		return done, err
	}
	f.Consumer = g.consumer
	for after := int64(0); ; {
		page, err := letters.ListDead(ctx, f, after, replayPage)
		if err != nil || len(page) == 0 {
			return done, err
		}
		for _, d := range page {
			after = d.ID
			switch r := g.Replay(ctx, d.ID); {
			case r.Outcome == Applied:
				done.Applied++
			case errors.Is(r.Err, store.ErrBehind), errors.Is(r.Err, store.ErrNotFound):
				// Behind one that has failed, or gone in the meantime.
			case r.Outcome == Failed && r.Fault == store.FaultHandler:
				done.Failed[d.ID] = r.Err
			default:
				return done, fmt.Errorf("dedup: replay of letter %d: %s: %w", d.ID, r.Outcome, r.Err)
			}
		}
	}
}

type letters[TTx any] interface {
	store.DeadLetters
	store.Reviver[TTx]
}

func (g *TxGuard[TTx]) letters() (letters[TTx], error) {
	l, ok := g.marks.(letters[TTx])
	if !ok {
		return nil, fmt.Errorf("dedup: replay: %T cannot run dead letters again", g.marks)
	}
	return l, nil
}
