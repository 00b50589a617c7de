package outbox

import (
	"context"
	"time"

	"github.com/semel-dev/semel/store"
)

// ask is a settlement with a question, under way.
type ask struct {
	done     store.Settlement
	starting []item
	want     store.Want
	keys     []askedKey
	// probes are the topics that are down and of which one row is wanted, to try them.
	probes map[*route]bool
}

type askedKey struct {
	key  *key
	slot *slot
}

// next settles and reads, where there is anything to settle or room to read.
func (p *pump) next(now time.Time) {
	a := &ask{probes: map[*route]bool{}}
	if !p.stopping {
		p.want(a, now)
	}
	// Not before: what is wanted may have set rows aside.
	a.done, a.starting = p.done, p.starting
	if a.done.Empty() && a.want.Flow+a.want.Due+len(a.want.Held)+len(a.want.Keys) == 0 {
		return
	}
	p.done, p.starting = store.Settlement{}, nil
	p.do(p.storeLimit(), func(ctx context.Context) func() {
		b, err := p.member.Next(ctx, a.done, a.want)
		return func() {
			if err != nil {
				p.unsettled(a)
				p.failed("next", err)
				return
			}
			p.worked()
			p.settled(a, &b)
			p.readAhead(&b)
			p.admit(&b, a, time.Now())
			p.measureRows(b.Flow)
		}
	})
}

// readAhead asks for more before what came is looked at, so that the store and the relay work
// at the same time. It does so only while nothing waits anywhere: then no decision about
// what came can bear on the question.
func (p *pump) readAhead(b *store.Batch) {
	now := time.Now()
	if !b.More || p.stopping || p.over > 0 || len(p.routes) > 0 || !now.Before(p.holdAt) {
		return
	}
	for _, s := range p.slots {
		if s != nil && (s.closed || s.suspect > 0 || len(s.keys) > 0) {
			return
		}
	}
	p.collect()
	if len(p.done.Wait) > 0 {
		return
	}
	p.more = true
	p.next(now)
}

// unsettled keeps a settlement that the store did not answer to.
func (p *pump) unsettled(a *ask) {
	p.done = store.Settlement{
		Sent: append(a.done.Sent, p.done.Sent...),
		Wait: append(a.done.Wait, p.done.Wait...),
		Back: append(a.done.Back, p.done.Back...),
	}
	p.starting = append(a.starting, p.starting...)
	for _, k := range a.keys {
		if !k.slot.lost && k.key.mode == keyServed && k.key.hand == 0 {
			p.reread([]int16{k.slot.number})
		}
	}
	p.more = true
	p.dueAt = time.Time{}
}

// settled takes rows out of the relay's hands after the store has agreed.
func (p *pump) settled(a *ask, b *store.Batch) {
	p.lose(b.Lost)
	shut := func(r *store.Row) {
		if s := p.slots[r.Slot]; s != nil {
			s.open--
		}
	}
	for _, r := range a.done.Sent {
		shut(r)
	}
	for _, r := range a.done.Back {
		shut(r)
	}
	for i := range a.done.Wait {
		if w := &a.done.Wait[i]; !w.Keep {
			shut(w.Row)
		}
	}
	for _, it := range a.starting {
		if it.key != nil {
			it.key.starting--
		}
		if it.slot.lost {
			p.aloneOver(&it)
			continue
		}
		p.enqueue(it)
	}
}
