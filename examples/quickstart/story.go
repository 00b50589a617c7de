package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/semel-dev/semel/outbox/standardwebhooks"
)

// config is what the command line says.
type config struct {
	Naive    bool
	Payments int
	Kills    int
	Seed     uint64
}

func (c config) check() error {
	switch {
	case c.Payments < 100:
		return fmt.Errorf("--payments %d: 100 is the least that makes a story", c.Payments)
	case c.Kills < 0 || c.Kills > c.Payments/50:
		return fmt.Errorf("--kills %d: between 0 and %d, so that each comes in the middle of something", c.Kills, c.Payments/50)
	}
	return nil
}

// limit is when a story that does not end is broken off, from when the servers are there.
func (c config) limit() time.Duration {
	return 2*time.Minute + time.Duration(c.Payments)*5*time.Millisecond
}

const tick = 100 * time.Millisecond

// story is the run of one. All of it happens in one goroutine, which hears of everything else
// through channels.
type story struct {
	config
	*screen
	house    *house
	plan     plan
	tally    *tally
	blows    map[string]*blow // by role
	children map[string]*child
	events   chan event
	produced chan error
	waves    chan []delivery
	wave     int // the last one that was asked for
}

// run tells the story and returns what it came to.
func run(ctx context.Context, c config, out io.Writer) (sum summary, err error) {
	plan := newPlan(c.Payments, c.Kills+1, c.Seed)
	s := &story{
		config: c, screen: newScreen(out), tally: newTally(),
		plan:     plan,
		children: map[string]*child{}, events: make(chan event, 256),
		blows: newBlows(plan, c),
		waves: make(chan []delivery, c.Kills+1), produced: make(chan error, c.Kills+1),
	}
	defer s.end()
	s.say("%s payments in %s messages, %s of them copies; seed %d", thousands(c.Payments),
		thousands(c.Payments+s.plan.copies), thousands(s.plan.copies), c.Seed)
	s.say("starting the servers that the environment does not name")
	s.house, err = open(ctx, stage{
		Run:    strconv.FormatUint(rand.Uint64N(1<<32), 36),
		Secret: standardwebhooks.NewSecret(), Naive: c.Naive, Seed: c.Seed,
	})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, s.house.close(ctx)) }()
	s.say("%s", s.house)
	defer s.killAll()

	if err := s.tell(ctx); err != nil {
		return sum, s.explain(err)
	}
	if sum, err = s.summary(ctx, time.Since(s.began)); err != nil {
		return sum, err
	}
	s.end()
	sum.print(out)
	return sum, nil
}

// tell goes on until nothing is under way any more and all processes have stopped in order.
func (s *story) tell(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit(), errors.New("the story does not end"))
	var producing sync.WaitGroup
	defer producing.Wait()
	defer close(s.waves)
	defer cancel()
	source := newProducer(s.house.stage, s.house.js)
	producing.Go(func() { s.produce(ctx, source) })
	if err := s.start(roleReceiver); err != nil {
		return err
	}
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for sent := 0; ; {
		select {
		case e := <-s.events:
			if err := s.hear(e); err != nil {
				return err
			}
		case err := <-s.produced:
			if err != nil {
				return err
			}
			sent++
		case <-ticks.C:
			s.progress(s.done())
			if sent < len(s.plan.waves) {
				continue
			}
			switch missing, err := s.missing(ctx); {
			case ctx.Err() != nil:
				return s.late(ctx)
			case err != nil:
				return err
			case len(missing) == 0:
				return s.stopAll(ctx)
			}
		case <-ctx.Done():
			return s.late(ctx)
		}
	}
}

// hear takes in what a child says, and its end.
func (s *story) hear(e event) error {
	role := e.from.role
	if e.ended {
		delete(s.children, role)
		if !e.from.killed {
			return fmt.Errorf("the %s ended by itself (%v):\n%s", role, e.from.err, e.from.log)
		}
		if err := s.start(role); err != nil {
			return err
		}
		b := s.blows[role]
		s.say("kill -9 %d, the %s, after %s %s; started again as %d", e.from.pid, role, thousands(b.after), b.what, s.children[role].pid)
		return nil
	}
	s.tally.add(role, e.report)
	switch {
	case e.Listening != "":
		s.house.stage.Webhook = e.Listening
		if err := errors.Join(s.start(roleRelay), s.start(roleWorker)); err != nil {
			return err
		}
		s.waves <- s.plan.waves[0]
		s.say("bank worker, relay and webhook receiver run as processes of their own")
	case e.Seen != nil && !e.from.killed:
		if role == roleWorker && e.Seen.Via == viaKafka {
			s.nextWave(e.from)
		}
		return s.strike(role, e.Seen)
	}
	return nil
}

// strike kills a child when its time has come.
func (s *story) strike(role string, seen *sighting) error {
	for victim, b := range s.blows {
		if c := s.children[victim]; c != nil && !c.killed && b.due(role, seen) {
			s.tally.kills[victim]++
			if err := c.kill(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *story) start(role string) error {
	c, err := start(role, s.house.stage, s.events)
	if err != nil {
		return err
	}
	s.children[role] = c
	return nil
}

// nextWave is produced when a worker that was started again has got its partitions of the topic
// back, which it proves by its first record: then it has both brokers to deal with when it
// is killed the next time.
func (s *story) nextWave(by *child) {
	if kills := s.tally.kills[roleWorker]; kills > s.wave && by == s.children[roleWorker] {
		s.wave = kills
		s.waves <- s.plan.waves[kills]
	}
}

// produce sends the waves in the background.
func (s *story) produce(ctx context.Context, source *producer) {
	defer func() { _ = source.close() }() // All of it has been confirmed, or the story fails anyway.
	for wave := range s.waves {
		s.produced <- source.send(ctx, wave)
	}
}

// done is how far the story is, for the progress.
func (s *story) done() (done, all int, words string) {
	booked, told := len(s.tally.payments), len(s.tally.receipts)
	words = fmt.Sprintf("%s booked, %s copies, %s receipts", thousands(booked), thousands(s.tally.copies), thousands(told))
	return booked + told, 2 * s.Payments, words
}
