//go:build unix

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/semel-dev/semel/integration/servers"
)

// How long a network is frozen: longer than anything waits that depends on it.
const (
	freezeBroker   = sessionTimeout + 2*time.Second // and longer than NATS's pings and ack wait
	freezeDatabase = commitLimit + 2*time.Second    // and longer than locks are waited for
)

// chaos does harm, in an order that follows from the seed. Thaws come later, while it goes on.
type chaos struct {
	*world
	rng     *rand.Rand
	thawing sync.WaitGroup
}

// fault is something that happens. Each of a deck happens once for each time that it is in it.
type fault struct {
	name string
	do   func(c *chaos, ctx context.Context) error
}

var (
	killOne = fault{"kill a consumer", func(c *chaos, _ context.Context) error {
		c.anyConsumer().kill()
		return nil
	}}
	killBusy = fault{"kill a consumer in its handler", func(c *chaos, ctx context.Context) error {
		return c.killBusy(ctx)
	}}
	killAll = fault{"kill all consumers", func(c *chaos, _ context.Context) error {
		for _, s := range c.consumers() {
			s.kill()
		}
		return nil
	}}
	leaveOne = fault{"a consumer leaves", func(c *chaos, _ context.Context) error {
		c.tally.add("asked to leave")
		c.anyConsumer().end()
		return nil
	}}
	killRelay = fault{"kill a relay", func(c *chaos, _ context.Context) error {
		c.anyRelay().kill()
		return nil
	}}
	restartBroker = fault{"restart the broker", func(c *chaos, ctx context.Context) error {
		c.tally.add("broker restarts")
		return c.broker.restart(ctx, c.world, c.moment(2000))
	}}
	crashDatabase = fault{"crash the database", func(c *chaos, ctx context.Context) error {
		c.tally.add("database restarts")
		if err := c.db.Crash(); err != nil {
			return err
		}
		pause(ctx, c.moment(1500))
		return c.db.Restart(ctx)
	}}
	freezeBrokerLink = fault{"freeze a consumer's way to the broker", func(c *chaos, ctx context.Context) error {
		c.freeze(ctx, c.anyConsumer().broker, freezeBroker)
		return nil
	}}
	freezeDatabaseLink = fault{"freeze a consumer's way to the database", func(c *chaos, ctx context.Context) error {
		c.freeze(ctx, c.anyConsumer().database.Proxy, freezeDatabase)
		return nil
	}}
	freezeRelay = fault{"freeze a relay's ways", func(c *chaos, ctx context.Context) error {
		s := c.anyRelay()
		c.freeze(ctx, s.broker, freezeDatabase)
		c.freeze(ctx, s.database.Proxy, freezeDatabase)
		return nil
	}}
	cut = fault{"cut a process off", func(c *chaos, _ context.Context) error {
		s := c.slots[c.rng.IntN(len(c.slots))]
		c.tally.add("cuts")
		s.broker.CutAll()
		s.database.CutAll()
		c.wire.CutAll()
		return nil
	}}
	loseCommits = fault{"lose COMMITs", func(c *chaos, _ context.Context) error {
		c.armed = append(c.armed, c.anyConsumer().database.Arm(servers.LoseCommit, 1+c.rng.IntN(3)))
		return nil
	}}
	loseAnswers = fault{"lose the answers to COMMITs", func(c *chaos, _ context.Context) error {
		c.armed = append(c.armed, c.anyConsumer().database.Arm(servers.LoseAnswer, 1+c.rng.IntN(3)))
		return nil
	}}
	resetGroup = fault{"reset the group", func(c *chaos, ctx context.Context) error {
		c.tally.add("resets to the start")
		return c.broker.reset(ctx, c.world)
	}}
	contend = fault{"hold the rows that all change", func(c *chaos, ctx context.Context) error {
		return c.contend(ctx)
	}}
	publishAgain = fault{"publish again", func(c *chaos, ctx context.Context) error {
		return c.republish(ctx, c.rng, 20+len(c.plan.messages)/100)
	}}
)

// deck is every fault at least once; quick has none for which one has to wait.
func deck(quick bool) []fault {
	d := []fault{
		killOne, killOne, killOne, killBusy, killAll, leaveOne, killRelay, killRelay, restartBroker, crashDatabase,
		cut, loseCommits, loseAnswers, resetGroup, publishAgain,
	}
	if !quick {
		d = append(d, contend, freezeBrokerLink, freezeDatabaseLink, freezeRelay, leaveOne)
	}
	return d
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
			w.t.Logf("%6.1fs round %d, %d settled: %s", time.Since(w.began).Seconds(), round+1, c.ledger.distinct(), f.name)
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

// shuffle leaves a reset for the second half, when there is something to do again.
func (c *chaos) shuffle(cards []fault) {
	swap := func(i, j int) { cards[i], cards[j] = cards[j], cards[i] }
	c.rng.Shuffle(len(cards), swap)
	half := len(cards) / 2
	if i := slices.IndexFunc(cards, func(f fault) bool { return f.name == resetGroup.name }); i >= 0 && i < half {
		swap(i, half+c.rng.IntN(len(cards)-half))
	}
}

// progress is work done. What is done again after a reset counts for less, or a replay would use up all faults.
func (c *chaos) progress() int {
	distinct, again := c.ledger.distinct(), c.ledger.again()
	return distinct + again/8
}

// done says that the consumers have nothing left to do.
func (c *chaos) done() bool {
	c.mu.Lock()
	produced := c.produced
	c.mu.Unlock()
	return produced >= len(c.plan.messages)+c.plan.copies && c.ledger.distinct() >= produced
}

func (c *chaos) anyConsumer() *slot { list := c.consumers(); return list[c.rng.IntN(len(list))] }
func (c *chaos) anyRelay() *slot    { list := c.relays(); return list[c.rng.IntN(len(list))] }

// killBusy kills consumers that are seen in a handler, until one has died there: between the look and the signal it may
// have got out of it.
func (c *chaos) killBusy(ctx context.Context) error {
	for {
		var victim *slot
		err := c.await(ctx, func() bool {
			for _, s := range c.consumers() {
				if p := s.child(); p != nil && !p.dead() && c.ledger.running(p.name) > 0 {
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
		if _, err := c.ledger.look(); err != nil || c.ledger.running(p.name) > 0 {
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
