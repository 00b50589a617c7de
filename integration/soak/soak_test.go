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
	s := size{messages: 4000, rounds: 1}
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
	w := newWorld(t, kind, seedOf(t), s.messages, each, batched, together)
	ctx, cancel := context.WithTimeout(t.Context(), s.limit)
	defer cancel()
	stop := w.start()
	watching, unwatch := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { w.watch(watching) })
	err := w.storm(ctx, deck(s.quick), s.rounds)
	if err == nil {
		err = w.calm(ctx)
	}
	unwatch()
	watcher.Wait()
	if err != nil {
		w.lastWords() // before the processes end
	}
	stop()
	if err != nil {
		t.Errorf("within %s: %v", s.limit, err)
	}
	w.verdict(w.observe(), s.quick)
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
	err := w.produce(ctx, max(400, len(w.plan.messages)/12))
	if err != nil {
		cancel(err)
	}
	return errors.Join(err, <-harm) // one of them made the other end
}

// calm waits until everything is settled and every event has left.
func (w *world) calm(ctx context.Context) error {
	w.t.Logf("%6.1fs calm", time.Since(w.began).Seconds())
	err := until(ctx, func(ctx context.Context) error {
		lag, err := w.broker.lag(ctx)
		if err == nil && lag != 0 {
			err = fmt.Errorf("the lag is %d", lag)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the consumers do not finish: %w", err)
	}
	w.t.Logf("%6.1fs no lag", time.Since(w.began).Seconds())
	err = until(ctx, func(ctx context.Context) error {
		left, err := w.outbox(ctx)
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
	_, err = w.ledger.look()
	return err
}

func (w *world) outbox(ctx context.Context) (int, error) {
	s, err := w.store.OutboxStats(ctx)
	return int(s.Flowing + s.Retrying + s.Behind + s.Held + s.Parked), err
}
