package outbox

import (
	"context"
	"time"

	"github.com/semel-dev/semel/store"
)

// keep prolongs the slots and takes in which ones they are.
func (p *pump) keep() {
	p.do(p.storeLimit(), func(ctx context.Context) func() {
		h, err := p.member.Hold(ctx)
		return func() {
			if err != nil {
				p.failed("hold", err)
				return
			}
			p.worked()
			now := time.Now()
			p.until, p.holdAt = h.Until, now.Add(min(p.lease/5, time.Second))
			p.lose(h.Lost)
			p.gain(h.Gained, now)
			p.reread(h.Changed)
			p.giveUp(h.Surplus)
		}
	})
}

// readBacklog learns what waits in slots whose rows have all come to an end.
func (p *pump) readBacklog() bool {
	var unread []*slot
	var numbers []int16
	for _, s := range p.slots {
		if s != nil && s.unread && !s.leaving && s.open == 0 && !p.stopping {
			unread, numbers = append(unread, s), append(numbers, s.number)
		}
	}
	if len(unread) == 0 {
		return false
	}
	p.do(max(p.storeLimit(), 30*time.Second), func(ctx context.Context) func() {
		backlog, err := p.member.Backlog(ctx, numbers)
		return func() {
			if err != nil {
				p.failed("backlog", err)
				return
			}
			p.worked()
			bySlot := map[int16][]store.Backlog{}
			for _, b := range backlog {
				bySlot[b.Slot] = append(bySlot[b.Slot], b)
			}
			for _, s := range unread {
				if !s.lost {
					p.learn(s, bySlot[s.number], time.Now())
				}
			}
			p.more = true
		}
	})
	return true
}

// release gives back slots of which nothing is in hand.
func (p *pump) release() bool {
	var numbers []int16
	for _, s := range p.slots {
		if s != nil && s.leaving && s.open == 0 {
			numbers = append(numbers, s.number)
		}
	}
	if len(numbers) == 0 {
		return false
	}
	p.do(p.storeLimit(), func(ctx context.Context) func() {
		err := p.member.Release(ctx, numbers...)
		return func() {
			if err != nil {
				p.failed("release", err)
				return
			}
			p.worked()
			for _, n := range numbers {
				if s := p.slots[n]; s != nil {
					s.lost = true
					p.slots[n] = nil
					p.forgetHeld(n)
				}
			}
			p.log.Info("slots released", "slots", len(numbers))
		}
	})
	return true
}
