//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func TestSoakKafka(t *testing.T) { soak(t, "kafka") }
func TestSoakNATS(t *testing.T)  { soak(t, "nats") }

// size is how much is done.
type size struct {
	messages int
	rounds   int  // how often each fault comes
	quick    bool // without those that take long
	limit    time.Duration
}

func sizeOf(t *testing.T) size {
	t.Helper()
	s := size{messages: 2500, rounds: 1}
	if testing.Short() {
		s.messages, s.quick = 1000, true
	}
	if text := os.Getenv("SEMEL_SOAK_MESSAGES"); text != "" {
		s.messages = must(strconv.Atoi(text))(t)
		if s.messages < 500 {
			t.Fatalf("SEMEL_SOAK_MESSAGES=%d: with less than 500 the faults have nothing to hit", s.messages)
		}
		s.rounds, s.quick = max(1, s.messages/12000), false
	}
	s.limit = 6*time.Minute + time.Duration(s.messages)*30*time.Millisecond
	return s
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64() % 1e6
	if text := os.Getenv("SEMEL_SOAK_SEED"); text != "" {
		seed = must(strconv.ParseUint(text, 10, 64))(t)
	}
	t.Logf("seed: SEMEL_SOAK_SEED=%d", seed)
	return seed
}

func soak(t *testing.T, kind string) {
	s := sizeOf(t)
	w := newWorld(t, kind, seedOf(t), s.messages, groupsOf(kind)...)
	ctx, cancel := context.WithTimeout(t.Context(), s.limit)
	defer cancel()
	stop := w.start()
	unwatch := w.attend(ctx)
	err := w.storm(ctx, deck(s.quick), s.rounds)
	if err == nil {
		err = w.calm(ctx)
	}
	unwatch()
	if err != nil {
		w.lastWords() // before the processes end
	}
	stop()
	if err != nil {
		t.Errorf("within %s: %v", s.limit, err)
		return
	}
	w.verdict(s.quick)
}

// attend starts what is to be looked after while consumers are at work. What it returns ends that.
func (w *world) attend(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, g := range w.groups {
		running.Go(func() { w.watch(ctx, g) })
		if fences(g.name) {
			running.Go(func() { w.follow(ctx, g) })
		}
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// storm produces everything and does all the harm.
func (w *world) storm(ctx context.Context, cards []fault, rounds int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	harm := make(chan error, 1)
	go func() {
		err := w.wreak(ctx, cards, rounds)
		if err != nil {
			cancel(err)
		}
		harm <- err
	}()
	err := w.produce(ctx, max(300, len(w.plan.messages)/12))
	if err != nil {
		cancel(err)
	}
	return errors.Join(err, <-harm) // one of them made the other end
}

// calm waits until everything is settled, looks at what waits for a person, lets one see to it, and waits until every event
// has left.
func (w *world) calm(ctx context.Context) error {
	w.say("calm")
	for _, g := range w.groups {
		if err := until(ctx, func(ctx context.Context) error { return w.rest(ctx, g) }); err != nil {
			return fmt.Errorf("the consumers of %s do not finish: %w", g.name, err)
		}
	}
	w.say("no lag")
	for _, g := range w.groups {
		now, err := w.whatWaits(ctx, g)
		if err != nil {
			return err
		}
		w.waiting[g.name] = now
	}
	for _, g := range w.groups {
		if err := until(ctx, func(ctx context.Context) error { return w.runAllAgain(ctx, g) }); err != nil {
			return fmt.Errorf("what waits in %s cannot be run again: %w", g.name, err)
		}
	}
	w.say("nothing waits")
	err := until(ctx, func(ctx context.Context) error {
		left, err := outboxOf(ctx, w.store)
		if err != nil || left == 0 {
			return err
		}
		// What an operator does. An event that was on its way at the death of several relays is parked for it.
		n, err := w.store.RetryWaiting(ctx, store.WaitingFilter{State: store.Parked}, 1000)
		w.tally.addN("parked events retried", n)
		if err == nil {
			err = fmt.Errorf("%d events are left", left)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the relays do not finish: %w", err)
	}
	return w.look()
}

func (w *world) say(what string) { w.t.Logf("%6.1fs %s", time.Since(w.began).Seconds(), what) }

// rest is an error as long as a group has something to do.
func (w *world) rest(ctx context.Context, g *group) error {
	lag, err := w.broker.lag(ctx, g)
	if err == nil && lag != 0 {
		err = fmt.Errorf("the lag is %d", lag)
	}
	if err != nil || g.name != stored {
		return err
	}
	s, err := w.box.OutboxStats(ctx)
	if n := s.Flowing + s.Retrying + s.Held; err == nil && n > 0 {
		err = fmt.Errorf("%d stored messages are not done", n)
	}
	if err != nil {
		return err
	}
	now, err := w.whatWaits(ctx, g)
	for _, d := range now.letters {
		if m, bad := parse(d.Body); bad != nil || !now.parked[m.Key] {
			return errors.Join(err, bad, fmt.Errorf("%s is stored, and nothing is parked before it", m.ID))
		}
	}
	return err
}

// runAllAgain is an error as long as anything waits.
func (w *world) runAllAgain(ctx context.Context, g *group) error {
	if err := w.runAgain(ctx, g, 1000); err != nil {
		return err
	}
	if err := w.rest(ctx, g); err != nil {
		return err
	}
	now, err := w.whatWaits(ctx, g)
	if n := len(now.parked); err == nil && n > 0 {
		err = fmt.Errorf("%d keys are parked", n)
	}
	return err
}

// outboxOf is how many events have not left.
func outboxOf(ctx context.Context, s *pgstore.Store) (int, error) {
	stats, err := s.OutboxStats(ctx)
	return int(stats.Flowing + stats.Retrying + stats.Behind + stats.Held + stats.Parked), err
}
