package inbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store/pgstore"
)

func TestAMessageIsKeptAndThenWorkedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := make(chan dedup.Message, 1)
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		got <- m
		return effect(ctx, tx, m)
	})
	m := order("a", "1")
	m.Position = full().Position
	for _, want := range []dedup.Outcome{dedup.Applied, dedup.Duplicate} {
		if r := in.Intake().Process(t.Context(), m); r.Outcome != want {
			t.Fatalf("%v: %v", r.Outcome, r.Err)
		}
	}
	if w.left() != 1 || w.count("select count(*) from effects") != 0 {
		t.Fatal("it is not kept, or done already")
	}
	start(t, in)
	if seen := receive(t, got); seen.Position != m.Position || seen.Topic != m.Topic || string(seen.Key) != "a" || string(seen.Body) != "1" {
		t.Errorf("the handler got %v", seen)
	}
	w.empty()
	w.want("a", "1")
}

// The relay is woken by the intake's commit: nobody waits for a poll.
func TestWorkBeginsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	done := make(chan struct{}, 10)
	in := w.inbox(func(context.Context, pgx.Tx, dedup.Message) error { done <- struct{}{}; return nil },
		fast(outbox.WithPoll(time.Minute)))
	start(t, in)
	take(t, in, order("a", "1"))
	receive(t, done) // the relay has its slots
	for i := range 3 {
		began := time.Now()
		take(t, in, order("a", fmt.Sprint("again", i)))
		receive(t, done)
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("it took %s", d)
		}
	}
}

// One schema for everything and one name for everything: the marks of intake and work stay apart.
func TestIntakeAndWorkOfOneNameInOneSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.box = w.work
	in := w.inbox(effect)
	start(t, in)
	take(t, in, order("a", "1"))
	eventually(t, "done", func() bool { return len(w.effects("a")) == 1 })
}

// A producer's copy that the intake does not know as one, such as with coordinates as its key, is
// found by the work's mark.
func TestCopiesThatAreKeptTwiceAreDoneOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in, err := inbox.New(w.box, "orders", dedup.FromCoordinates(), dedup.Forever, guard(t, w.work, effect), fast())
	if err != nil {
		t.Fatal(err)
	}
	m, again := order("a", "1"), order("a", "1")
	m.Position = full().Position
	again.Position = m.Position
	again.Position.Offset++
	take(t, in, m, again)
	if n := w.left(); n != 2 {
		t.Fatalf("%d are kept", n)
	}
	start(t, in)
	w.empty()
	w.want("a", "1")
}

// The intake may queue its statements, or keep positions and no keys.
func TestOtherViewsOfTheStoreKeepMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	work := guard(t, w.work, effect)
	queued, err := inbox.New(w.box.Queued(), "orders", dedup.FromHeader("id"), dedup.Forever, work, fast())
	if err != nil {
		t.Fatal(err)
	}
	if r := queued.Intake().Process(t.Context(), order("a", "1")); r.Outcome != dedup.Applied {
		t.Fatal(r)
	}
	fenced, err := inbox.New(w.box.Fenced(), "orders", dedup.FromHeader("id"), dedup.Forever, work, fast())
	if err != nil {
		t.Fatal(err)
	}
	m := order("a", "2")
	m.Position = full().Position
	applied, err := fenced.Intake().Applied(t.Context(), m.Position.Log, m.Position.Partition)
	if err != nil {
		t.Fatal(err)
	}
	m.Epoch = applied.Epoch
	for _, want := range []dedup.Outcome{dedup.Applied, dedup.Duplicate} {
		if r := fenced.Intake().Process(t.Context(), m); r.Outcome != want {
			t.Fatal(r)
		}
	}
	start(t, queued)
	w.empty()
	w.want("a", "1", "2")
}

func TestRunSaysThatTheWorkIsNotSetUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nowhere, err := pgstore.New(w.pool, pgstore.WithSchema("nowhere"))
	if err != nil {
		t.Fatal(err)
	}
	w.work = nowhere
	if err := w.inbox(effect).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("Run = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.inbox(effect).Run(ctx); err != nil {
		t.Errorf("Run of an ended context = %v", err)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	pool := newWorld(t)
	work := guard(t, pool.work, effect)
	for name, try := range map[string]func() error{
		"no box": func() error {
			_, err := inbox.New[pgx.Tx](nil, "orders", dedup.FromHeader("id"), dedup.Forever, work)
			return err
		},
		"no work": func() error { return tryNew(pool, "orders", dedup.FromHeader("id"), dedup.Forever, nil) },
		"no name": func() error { return tryNew(pool, "", dedup.FromHeader("id"), dedup.Forever, work) },
		"no key":  func() error { return tryNew(pool, "orders", nil, dedup.Forever, work) },
		"no keep": func() error { return tryNew(pool, "orders", dedup.FromHeader("id"), 0, work) },
		"limit": func() error {
			return tryNew(pool, "orders", dedup.FromHeader("id"), dedup.Forever, work, inbox.WithLimit(-1))
		},
		"concurrency": func() error {
			return tryNew(pool, "orders", dedup.FromHeader("id"), dedup.Forever, work, inbox.WithConcurrency(0))
		},
		"order": func() error {
			return tryNew(pool, "orders", dedup.FromHeader("id"), dedup.Forever, work, inbox.WithOrder(nil))
		},
		"logger": func() error {
			return tryNew(pool, "orders", dedup.FromHeader("id"), dedup.Forever, work, inbox.WithLogger(nil))
		},
		"relay": func() error {
			return tryNew(pool, "orders", dedup.FromHeader("id"), dedup.Forever, work, inbox.WithRelay(outbox.WithLease(0)))
		},
		"intake": func() error {
			return tryNew(pool, "orders", dedup.FromHeader("id"), dedup.Forever, work, inbox.WithIntake(dedup.WithParking(nil)))
		},
		"nil": func() error { return tryNew(pool, "orders", dedup.FromHeader("id"), dedup.Forever, work, nil) },
	} {
		if err := try(); err == nil || !strings.HasPrefix(err.Error(), "inbox") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func tryNew(w *world, name string, key dedup.KeyFunc, keep time.Duration, work dedup.Processor, opts ...inbox.Option) error {
	_, err := inbox.New(w.box, name, key, keep, work, opts...)
	return err
}
