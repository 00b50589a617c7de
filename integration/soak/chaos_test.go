//go:build unix

package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/semel-dev/semel/integration/servers"
)

// chaos does harm, in an order that follows from the seed. Thaws come later, while it goes on.
type chaos struct {
	*world
	rng     *rand.Rand
	thawing sync.WaitGroup
}

// wreak deals the deck a number of times, shuffled each time, spread over the work.
func (w *world) wreak(ctx context.Context, cards []fault, rounds int) error {
	c := &chaos{world: w, rng: w.rng("chaos")}
	defer c.thawing.Wait()
	work := len(w.plan.messages) * 9 / 10 // copies come on top, so it does not run out
	step := work / (rounds*len(cards) + 1)
	target := step
	for round := range rounds {
		c.shuffle(cards)
		for _, f := range cards {
			err := c.await(ctx, func() bool { return c.progress() >= target || c.done() })
			if err != nil {
				return fmt.Errorf("the consumers do not get on, before %q: %w", f.name, err)
			}
			w.t.Logf("%6.1fs round %d, %d settled: %s", time.Since(w.began).Seconds(), round+1, c.settled(), f.name)
			if err := f.do(c, ctx); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			// Sometimes the next one comes before anybody has recovered.
			if c.rng.IntN(4) > 0 {
				target = max(target, c.progress()) + step/2 + c.rng.IntN(max(1, step))
			}
		}
	}
	return nil
}

// shuffle gives every fault a place within its season.
func (c *chaos) shuffle(cards []fault) {
	type dealt struct {
		fault
		at float64
	}
	list := make([]dealt, len(cards))
	for i, f := range cards {
		at := c.rng.Float64()
		switch f.season {
		case early:
			at /= 4
		case late:
			at = (1 + at) / 2
		}
		list[i] = dealt{f, at}
	}
	slices.SortFunc(list, func(a, b dealt) int { return cmp.Compare(a.at, b.at) })
	for i, d := range list {
		cards[i] = d.fault
	}
}

// progress is that of the slowest group.
func (c *chaos) progress() int { return c.least((*group).progress) }

// done says that the consumers have nothing left to do.
func (c *chaos) done() bool {
	c.mu.Lock()
	produced := c.produced
	c.mu.Unlock()
	return produced >= len(c.plan.messages)+c.plan.copies && c.settled() >= produced
}

// victims are a consumer of each group.
func (c *chaos) victims() (list []*slot) {
	for _, g := range c.groups {
		all := c.consumers(g)
		list = append(list, all[c.rng.IntN(len(all))])
	}
	return list
}

func (c *chaos) anyRelay() *slot { list := c.relays(); return list[c.rng.IntN(len(list))] }

// reset makes all groups begin again at the start. Where positions decide, the broker's offsets do nothing; the positions
// are set back, while consumers are at work, where keys keep the effects from being doubled.
func (c *chaos) reset(ctx context.Context) error {
	for _, g := range c.groups {
		if err := c.broker.reset(ctx, c.world, g); err != nil {
			return err
		}
		if g.name != fenced {
			continue
		}
		for lane := range lanes {
			err := until(ctx, func(ctx context.Context) error { // until it does not move in between
				at, err := g.guard.Applied(ctx, kafkaTopic, lane)
				if err == nil {
					_, err = g.guard.RestartFence(ctx, kafkaTopic, lane, at, -1)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// killBusy kills consumers of each group that are seen in a handler.
func (c *chaos) killBusy(ctx context.Context) error {
	errs := make([]error, len(c.groups))
	var running sync.WaitGroup
	for i, g := range c.groups {
		running.Go(func() { errs[i] = c.killBusyOf(ctx, g) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// killBusyOf does so until one has died there: between the look and the signal it may have got out of it.
func (c *chaos) killBusyOf(ctx context.Context, g *group) error {
	for {
		var victim *slot
		err := c.await(ctx, func() bool {
			for _, s := range c.consumers(g) {
				if p := s.child(); p != nil && !p.dead() && g.ledger.running(p.name) > 0 {
					victim = s
					return true
				}
			}
			return c.done()
		})
		if err != nil || victim == nil {
			return err
		}
		p := victim.child()
		p.kill()
		if _, err := g.ledger.look(); err != nil || g.ledger.running(p.name) > 0 {
			return err
		}
	}
}

// moment is a time of at most so many milliseconds.
func (c *chaos) moment(ms int) time.Duration { return time.Duration(c.rng.IntN(ms)) * time.Millisecond }

func (c *chaos) freeze(ctx context.Context, p *servers.Proxy, d time.Duration) {
	c.tally.add("freezes")
	p.Freeze()
	c.thawing.Go(func() {
		pause(ctx, d)
		p.Thaw()
	})
}
