//go:build unix

package soak

import (
	"context"
	"time"

	"github.com/semel-dev/semel/integration/servers"
)

// How long a network is frozen: longer than anything waits that depends on it.
const (
	freezeBroker   = sessionTimeout + 2*time.Second // and longer than NATS's pings and ack wait
	freezeDatabase = commitLimit + 2*time.Second    // and longer than locks are waited for
)

// fault is something that happens. Each of a deck happens once for each time that it is in it.
type fault struct {
	name   string
	do     func(c *chaos, ctx context.Context) error
	season season
}

// season says when in a round a fault comes.
type season int

const (
	anytime season = iota
	early          // while every group has enough to do: it waits for handlers at work
	late           // when there is something to do again
)

var (
	killOne = fault{"kill a consumer", func(c *chaos, _ context.Context) error {
		for _, s := range c.victims() {
			s.kill()
		}
		return nil
	}, anytime}
	killBusy = fault{"kill a consumer in its handler", func(c *chaos, ctx context.Context) error {
		return c.killBusy(ctx)
	}, early}
	killAll = fault{"kill all consumers", func(c *chaos, _ context.Context) error {
		for _, s := range c.slots {
			if s.consumer() {
				s.kill()
			}
		}
		return nil
	}, anytime}
	leaveOne = fault{"a consumer leaves", func(c *chaos, _ context.Context) error {
		c.tally.add("asked to leave")
		for _, s := range c.victims() {
			s.end()
		}
		return nil
	}, anytime}
	killRelay = fault{"kill a relay", func(c *chaos, _ context.Context) error {
		c.anyRelay().kill()
		return nil
	}, anytime}
	restartBroker = fault{"restart the broker", func(c *chaos, ctx context.Context) error {
		c.tally.add("broker restarts")
		return c.broker.restart(ctx, c.world, c.moment(2000))
	}, anytime}
	crashDatabase = fault{"crash the database", func(c *chaos, ctx context.Context) error {
		c.tally.add("database restarts")
		if err := c.db.Crash(); err != nil {
			return err
		}
		pause(ctx, c.moment(1500))
		return c.db.Restart(ctx)
	}, anytime}
	freezeBrokerLink = fault{"freeze a consumer's way to the broker", func(c *chaos, ctx context.Context) error {
		for _, s := range c.victims() {
			c.freeze(ctx, s.broker, freezeBroker)
		}
		return nil
	}, anytime}
	freezeDatabaseLink = fault{"freeze a consumer's way to the database", func(c *chaos, ctx context.Context) error {
		for _, s := range c.victims() {
			c.freeze(ctx, s.database.Proxy, freezeDatabase)
		}
		return nil
	}, anytime}
	freezeRelay = fault{"freeze a relay's ways", func(c *chaos, ctx context.Context) error {
		s := c.anyRelay()
		c.freeze(ctx, s.broker, freezeDatabase)
		c.freeze(ctx, s.database.Proxy, freezeDatabase)
		return nil
	}, anytime}
	cut = fault{"cut a process off", func(c *chaos, _ context.Context) error {
		c.tally.add("cuts")
		for _, s := range append(c.victims(), c.anyRelay()) {
			s.broker.CutAll()
			s.database.CutAll()
		}
		c.wire.CutAll()
		return nil
	}, anytime}
	loseCommits = fault{"lose COMMITs", func(c *chaos, _ context.Context) error {
		for _, s := range c.victims() {
			c.armed = append(c.armed, s.database.Arm(servers.LoseCommit, 1+c.rng.IntN(3)))
		}
		return nil
	}, anytime}
	loseAnswers = fault{"lose the answers to COMMITs", func(c *chaos, _ context.Context) error {
		for _, s := range c.victims() {
			c.armed = append(c.armed, s.database.Arm(servers.LoseAnswer, 1+c.rng.IntN(3)))
		}
		return nil
	}, anytime}
	resetGroup = fault{"reset the groups", func(c *chaos, ctx context.Context) error {
		c.tally.add("resets to the start")
		return c.reset(ctx)
	}, late}
	contend = fault{"hold the rows that all change", func(c *chaos, ctx context.Context) error {
		return c.contend(ctx)
	}, early}
	operate = fault{"run again what was given up", func(c *chaos, ctx context.Context) error {
		return c.operate(ctx)
	}, anytime}
	publishAgain = fault{"publish again", func(c *chaos, ctx context.Context) error {
		return c.republish(ctx, c.rng, 20+len(c.plan.messages)/100)
	}, anytime}
)

// deck is every fault at least once; quick has none for which one has to wait.
func deck(quick bool) []fault {
	d := []fault{
		killOne, killOne, killOne, killBusy, killAll, leaveOne, killRelay, killRelay, restartBroker, crashDatabase,
		cut, loseCommits, loseAnswers, resetGroup, publishAgain, operate, operate,
	}
	if !quick {
		d = append(d, contend, freezeBrokerLink, freezeDatabaseLink, freezeRelay, leaveOne)
	}
	return d
}
