package kafkasub

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// countLimit bounds what is written about attempts. Nothing waits for it longer: attempts are also
// counted in memory.
const countLimit = 2 * time.Second

// spend counts a failed attempt of the head, where there is a counter in all processes.
func (l *lane) spend(ctx context.Context, m dedup.Message) {
	l.head.spent++
	if l.counter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	spent, err := l.counter.Spend(ctx, m)
	l.head.counted, l.head.cleared = true, true // perhaps even so
	if err != nil {
		l.log.Warn("an attempt is counted in this process alone", "offset", m.Position.Offset, "attempts", l.head.spent, "error", err)
		return
	}
	l.head.spent, l.head.begun = max(l.head.spent, spent), false
}

// forget removes what was counted of a message that is settled. What stays behind is harmless.
func (l *lane) forget(ctx context.Context, m dedup.Message) {
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	if err := l.counter.Forget(ctx, m); err != nil {
		l.log.Info("attempts of a message that is settled are not forgotten", "offset", m.Position.Offset, "error", err)
	}
}

// enter says that this member works on the partition from now on, and asks how the one before has
// ended. It reports false when ctx has ended.
func (p *partition) enter(ctx context.Context) bool {
	if p.counter == nil {
		return true
	}
	for n := 1; ctx.Err() == nil; n++ {
		// Each try has a name of its own: one whose answer was lost may have entered, and nobody can
		// tell any more how the owner before it had ended. The next try finds it there, and is careful.
		p.owner = fmt.Sprintf("%s/%d", p.member, n)
		orderly, err := p.tryEnter(ctx)
		if err != nil {
			if ctx.Err() == nil {
				p.log.Warn("the partition cannot be entered; trying again", "error", err)
			}
			wait(ctx, brokerPace.Delay(n))
			continue
		}
		p.entered.Store(true)
		if !orderly {
			p.log.Warn("the former owner has not left the partition in order: the first messages go one at a time, and their starts are counted")
			p.suspicion.begin(p.conf.prefetch, len(p.lanes))
		}
		return true
	}
	return false
}

func (p *partition) tryEnter(ctx context.Context) (orderly bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*countLimit)
	defer cancel()
	return p.counter.Enter(ctx, p.at.topic, p.at.partition, p.owner)
}

// leave says that nothing of the partition is at work any more, if that is so. Starts that could not be
// taken back before are taken back first: of messages whose handlers were cancelled, or that met an outage.
func (p *partition) leave(ctx context.Context) {
	if p.counter == nil || !p.entered.Load() {
		return
	}
	still := false
	for _, l := range p.lanes {
		if !l.ended() {
			still = true
		} else if l.head.begun {
			l.survive(ctx, *l.queue.front())
		}
	}
	if still || !p.suspicion.over(p.settled.Load(), p.end.Load()) {
		return // the next owner is to be careful: what a dead one had in hand may lie ahead yet
	}
	if err := p.counter.Leave(ctx, p.at.topic, p.at.partition, p.owner); err != nil {
		p.log.Info("that the partition is left in order could not be noted; the next owner will be careful", "error", err)
	}
}

func leave(ctx context.Context, partitions []*partition) {
	var leaving sync.WaitGroup
	for _, p := range partitions {
		leaving.Go(func() { p.leave(ctx) })
	}
	leaving.Wait()
}
