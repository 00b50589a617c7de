package dedup

import (
	"context"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/store"
)

// Bury implements [Burier]. The dead letter and the mark commit together: a message that
// was given up is done, and delivered again it is a duplicate. One without a key is
// marked by its place in the log.
func (g *TxGuard[TTx]) Bury(ctx context.Context, m Message, reason error) Result {
	burier, ok := g.marks.(store.Burier[TTx])
	if !ok {
		return Result{Failed, store.FaultSetup, fmt.Errorf("dedup: bury: %T keeps no dead letters", g.marks)}
	}
	scope, err := g.marks.Scope(ctx, g.consumer)
	if err != nil {
		return g.failed(ctx, err, g.marks.Fault(err))
	}
	id, err := identify(g.key, g.consumer, scope, m)
	if err != nil {
		if id, err = identifyByPlace(g.consumer, scope, m); err != nil {
			return Result{Failed, store.FaultHandler, err}
		}
	}
	for tries := 0; ; tries++ {
		r := g.tryBury(ctx, burier, id, reason)
		if !g.again(ctx, r, tries) {
			return r
		}
	}
}

func (g *TxGuard[TTx]) tryBury(ctx context.Context, burier store.Burier[TTx], id identified, reason error) Result {
	unit, statuses, err := g.marks.Begin(ctx, []store.Mark{id.mark})
	if err != nil {
		return g.failed(ctx, err, g.marks.Fault(err))
	}
	defer func() { _ = unit.Rollback(ctx) }() // does nothing after the commit
	if statuses[0] == store.Seen {
		return Result{Outcome: Duplicate}
	}
	if err := burier.BuryTx(ctx, unit.Tx(), deadLetter(g.consumer, id, reason)); err != nil {
		return g.failed(ctx, err, unit.Fault(err))
	}
	limited, cancel := g.commitContext(ctx)
	defer cancel()
	if end, err := unit.Commit(limited); end != store.Committed {
		return g.notCommitted(ctx, end, err)
	}
	return Result{Outcome: Buried}
}

const (
	longestKeyText = 256
	longestReason  = 16 << 10
)

func deadLetter(consumer string, id identified, reason error) store.DeadLetter {
	m := id.m
	text := "given up without a reason"
	if reason != nil {
		text = reason.Error()
	}
	var p *PanicError
	if errors.As(reason, &p) {
		text += "\n\n" + string(p.Stack)
	}
	return store.DeadLetter{
		Consumer: consumer, Key: id.mark.Key, KeyText: id.text[:min(len(id.text), longestKeyText)],
		Broker: m.Position.Broker, Topic: m.Topic, Log: m.Position.Log,
		Partition: m.Position.Partition, Offset: m.Position.Offset, Time: m.Position.Time,
		MessageKey: m.Key, Headers: m.Headers, Body: m.Body,
		Reason: text[:min(len(text), longestReason)], Attempts: m.Attempt,
	}
}
