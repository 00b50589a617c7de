package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
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

func TestARefusedMessageIsParkedWithItsKeyBehindItAndRetriedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mended atomic.Bool
	var runs atomic.Int64
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if string(m.Body) == "bad" {
			runs.Add(1)
			if !mended.Load() {
				return errors.New("the price is negative")
			}
		}
		return effect(ctx, tx, m)
	})
	start(t, in)
	take(t, in, order("a", "1"), order("a", "bad"), order("a", "2"), order("b", "1"))
	eventually(t, "it is parked and the next one behind it", func() bool { return w.waiting(store.Parked) == 1 && w.left() == 2 })
	if n := runs.Load(); n != 3 {
		t.Errorf("it was tried %d times, and has 3 attempts", n)
	}
	w.want("a", "1")
	w.want("b", "1")
	list, err := w.box.ListWaiting(t.Context(), store.WaitingFilter{State: store.Parked}, 0, 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("%v (%v)", list, err)
	}
	m, err := inbox.Message(list[0].Event)
	if err != nil || string(m.Body) != "bad" || list[0].Attempts != 3 || !strings.Contains(list[0].Reason, "negative") || list[0].Type != "orders" {
		t.Errorf("an operator sees %+v (%v)", list[0], err)
	}
	mended.Store(true)
	if n, err := w.box.RetryWaiting(t.Context(), store.WaitingFilter{IDs: []store.ID{list[0].ID}}, 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.empty()
	w.want("a", "1", "bad", "2")
}

func TestAPermanentFailureIsParkedAtOnceAndCanBeDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs atomic.Int64
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if string(m.Body) == "bad" {
			runs.Add(1)
			return dedup.Permanent(errors.New("no such customer"))
		}
		return effect(ctx, tx, m)
	})
	start(t, in)
	take(t, in, order("a", "bad"), order("a", "2"))
	eventually(t, "parked", func() bool { return w.waiting(store.Parked) == 1 && w.left() == 2 })
	if n, err := w.box.DiscardParked(t.Context(), store.WaitingFilter{Key: []byte("a")}, 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.empty()
	w.want("a", "2")
	if n := runs.Load(); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
}

func TestWorkOfAKeyIsDoneInOrderWhateverFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const keys, each = 12, 15
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if err := effect(ctx, tx, m); err != nil {
			return err
		}
		if rand.IntN(6) == 0 {
			return errors.New("by chance") // after the effect, which must go
		}
		return nil
	}, inbox.WithConcurrency(8), fast(outbox.WithRetry(outbox.Retry{MaxAttempts: 1000, MinDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond})))
	start(t, in)
	for i := range each {
		var ms []dedup.Message
		for k := range keys {
			ms = append(ms, order(fmt.Sprint("k", k), fmt.Sprint(i)))
		}
		take(t, in, ms...)
	}
	w.empty()
	for k := range keys {
		w.want(fmt.Sprint("k", k), numbered(each)...)
	}
}

// One message works for as long as the test wants, and everything else is done meanwhile.
func TestSlowWorkHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if string(m.Key) == "slow" {
			<-release
		}
		return effect(ctx, tx, m)
	}, inbox.WithConcurrency(2))
	start(t, in)
	free := sync.OnceFunc(func() { close(release) })
	defer free()
	take(t, in, order("slow", "1"))
	var ms []dedup.Message
	for i := range 400 { // more than a lane or a read holds
		key := fmt.Sprint("k", i)
		if lane(t, key) != lane(t, "slow") {
			ms = append(ms, order(key, "1"))
		}
		ms = append(ms, order("slow", fmt.Sprint(i+2)))
	}
	take(t, in, ms...)
	eventually(t, "all others are done", func() bool { return w.count("select count(distinct key) from effects") == len(ms)-400 })
	w.want("slow")
	free()
	w.empty()
	w.want("slow", numbered(402)[1:]...)
}

// lane is that of an ordering key.
func lane(t *testing.T, key string) string {
	t.Helper()
	return keep(t, order(key, "1")).Topic
}

// Work of several times the lease is done once: relays renew their leases while it runs.
func TestWorkLongerThanTheLeaseRunsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs atomic.Int64
	began := make(chan struct{}, 10)
	long := func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		runs.Add(1)
		began <- struct{}{}
		if _, err := tx.Exec(ctx, "select pg_sleep(4.5)"); err != nil {
			return err
		}
		return effect(ctx, tx, m)
	}
	lease := fast(outbox.WithLease(time.Second))
	in := w.inbox(long, lease)
	start(t, in)
	take(t, in, order("a", "1"))
	receive(t, began)
	start(t, w.inbox(long, lease)) // would take what the first one lost
	w.empty()
	w.want("a", "1")
	if n := runs.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// The parts without New, and a relay whose publish timeout is too short for the first run: it is rolled back,
// costs no attempt and is tried again.
func TestWorkThatTheRelayCutsShortIsRolledBackAndTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs atomic.Int64
	p := newPublisher(t, guard(t, w.work, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if err := effect(ctx, tx, m); err != nil {
			return err
		}
		if runs.Add(1) <= 4 {
			_, err := tx.Exec(ctx, "select pg_sleep(60)")
			return err
		}
		return nil
	}))
	relay, err := outbox.NewRelay(w.box, map[string]outbox.Publisher{"orders": p}, outbox.WithPublishTimeout(300*time.Millisecond),
		outbox.WithProbe(10*time.Millisecond, 20*time.Millisecond), outbox.WithRetry(outbox.Retry{MaxAttempts: 1, MinDelay: 1, MaxDelay: 1}))
	if err != nil {
		t.Fatal(err)
	}
	writer, err := inbox.NewWriter(w.box, "orders", inbox.WithWake(relay.Wake))
	if err != nil {
		t.Fatal(err)
	}
	intake, err := dedup.NewTx(w.box, "orders intake", dedup.FromHeader("id"), dedup.Forever, writer.KeepTx)
	if err != nil {
		t.Fatal(err)
	}
	start(t, relay)
	for _, body := range []string{"1", "2"} {
		if r := intake.Process(t.Context(), order("a", body)); r.Outcome != dedup.Applied {
			t.Fatal(r)
		}
	}
	w.empty()
	w.want("a", "1", "2")
	if n := runs.Load(); n < 6 {
		t.Errorf("it ran %d times", n)
	}
}

func TestWorkBeyondItsLimitUsesUpAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs atomic.Int64
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		runs.Add(1)
		if err := effect(ctx, tx, m); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "select pg_sleep(60)")
		return err
	}, inbox.WithLimit(200*time.Millisecond))
	start(t, in)
	take(t, in, order("a", "1"))
	eventually(t, "parked", func() bool { return w.waiting(store.Parked) == 1 })
	if n := runs.Load(); n != 3 {
		t.Errorf("it ran %d times", n)
	}
	w.want("a")
}

// A lock that somebody else holds costs no attempt, and no other lane anything.
func TestABusyKeyWaitsWithoutUsingUpAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgstore.WithLockWait(100*time.Millisecond))
	if _, err := w.pool.Exec(t.Context(), "create table accounts (key text); insert into accounts values ('a'), ('b')"); err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int64
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		runs.Add(1)
		if _, err := tx.Exec(ctx, "select from accounts where key = $1 for update", string(m.Key)); err != nil {
			return err
		}
		return effect(ctx, tx, m)
	}, fast(outbox.WithRetry(outbox.Retry{MaxAttempts: 1, MinDelay: 1, MaxDelay: 1})))
	rival, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Rollback(context.Background())
	if _, err := rival.Exec(t.Context(), "select from accounts where key = 'a' for update"); err != nil {
		t.Fatal(err)
	}
	start(t, in)
	take(t, in, order("a", "1"), order("a", "2"), order("b", "1"))
	eventually(t, "it was tried several times", func() bool { return runs.Load() > 4 })
	w.want("a")
	w.want("b", "1")
	if n := w.waiting(store.Parked); n > 0 {
		t.Fatalf("%d are parked", n)
	}
	if err := rival.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.empty()
	w.want("a", "1", "2")
}

// What a relay's end interrupts is rolled back and given back, and the next one does it.
func TestABacklogAndInterruptedWorkSurviveARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{}, 10)
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if err := effect(ctx, tx, m); err != nil {
			return err
		}
		began <- struct{}{}
		_, err := tx.Exec(ctx, "select pg_sleep(60)")
		return err
	}, fast(outbox.WithDrain(0), outbox.WithRetry(outbox.Retry{MaxAttempts: 1, MinDelay: 1, MaxDelay: 1})), inbox.WithConcurrency(1))
	var ms []dedup.Message
	for i := range 20 {
		ms = append(ms, order("a", fmt.Sprint(i)), order(fmt.Sprint("k", i), "0"))
	}
	take(t, in, ms...) // by a process that does no work
	stop := start(t, in)
	receive(t, began)
	stop()
	if n := w.count("select count(*) from effects"); n != 0 || w.left() != 40 {
		t.Fatalf("%d effects, %d are kept", n, w.left())
	}
	start(t, w.inbox(effect))
	w.empty()
	w.want("a", numbered(20)...)
	if n := w.count("select count(*) from effects"); n != 40 {
		t.Errorf("%d effects", n)
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
