package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
)

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

// The parts without New, and a relay whose publish timeout is too short for the first runs: each is
// rolled back, costs no attempt and is tried again.
func TestWorkThatTheRelayCutsShortIsRolledBackAndTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs atomic.Int64
	p := newPublisher(t, guard(t, w.work, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if err := effect(ctx, tx, m); err != nil {
			return err
		}
		if runs.Add(1) <= 4 {
			// Not for longer: a server that is asked to cancel what has not begun goes on with it.
			_, err := tx.Exec(ctx, "select pg_sleep(3)")
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
		<-ctx.Done()
		return ctx.Err()
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
