package inbox_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// fakeTime is an inbox on a clock that only goes on when everybody waits.
func fakeTime(t *testing.T, messages int, h dedup.TxHandlerFunc[*memstore.Tx], opts ...inbox.Option) (box *memstore.Store) {
	t.Helper()
	box = memstore.New()
	work, err := dedup.NewTx(memstore.New(), "orders", dedup.FromHeader("id"), dedup.Forever, h)
	if err != nil {
		t.Fatal(err)
	}
	in, err := inbox.New(box, "orders", dedup.FromHeader("id"), dedup.Forever, work, opts...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if r := in.Intake().Process(t.Context(), order(fmt.Sprint("k", i), "0")); r.Outcome != dedup.Applied {
			t.Fatal(r)
		}
	}
	start(t, in)
	return box
}

// The limit alone decides how long work may take: neither the lease nor the publish timeout, which
// has room for it.
func TestWorkMayTakeUpToItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		done := make(chan struct{})
		fakeTime(t, 1, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
			runs++
			select {
			case <-time.After(29 * time.Minute):
				close(done)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, inbox.WithLimit(30*time.Minute))
		<-done
		synctest.Wait()
		if runs != 1 {
			t.Errorf("it ran %d times", runs)
		}
	})
}

func TestTheDefaultLimitIsFiveMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var took time.Duration
		box := fakeTime(t, 1, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
			<-ctx.Done()
			took = time.Since(began)
			return ctx.Err()
		}, inbox.WithRelay(outbox.WithRetry(outbox.Retry{MaxAttempts: 1, MinDelay: 1, MaxDelay: 1})))
		time.Sleep(10 * time.Minute)
		waiting, err := box.ListWaiting(t.Context(), store.WaitingFilter{State: store.Parked}, 0, 10)
		if err != nil || len(waiting) != 1 || took < 5*time.Minute || took > 5*time.Minute+5*time.Second {
			t.Errorf("after %s: %v (%v)", took, waiting, err)
		}
	})
}

// As many messages are worked on at once as was said, and no more.
func TestConcurrencyIsBounded(t *testing.T) {
	t.Parallel()
	for n, opts := range map[int][]inbox.Option{
		4: nil,
		9: {inbox.WithConcurrency(9)},
		3: {inbox.WithConcurrency(3), inbox.WithRelay(outbox.WithCalls(20), outbox.WithPublishTimeout(time.Second))},
	} {
		synctest.Test(t, func(t *testing.T) {
			running := make(chan struct{}, 100)
			most, done := 0, make(chan struct{}, 100)
			fakeTime(t, 60, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
				running <- struct{}{}
				select {
				case <-time.After(10 * time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
				<-running
				done <- struct{}{}
				return nil
			}, opts...)
			for range 60 {
				<-done
				synctest.Wait()
				most = max(most, len(running))
			}
			if most != n {
				t.Errorf("%d were worked on at once, want %d", most, n)
			}
		})
	}
}

// Messages that are never heard of again do not fill the memory.
func TestAttemptsOfManyMessagesAreBounded(t *testing.T) {
	t.Parallel()
	a := inbox.NewAttempts()
	for i := range 30_000 {
		a.Fail(store.DigestKey([]byte(fmt.Sprint(i))).ID)
	}
	if n := a.Len(); n != 10_000 {
		t.Errorf("%d are remembered", n)
	}
	last := store.DigestKey([]byte("29999")).ID
	if n := a.Next(last); n != 2 {
		t.Errorf("the last one has attempt %d", n)
	}
	a.Forget(last)
	if n, left := a.Next(last), a.Len(); n != 1 || left != 9_999 {
		t.Errorf("forgotten, it has attempt %d of %d", n, left)
	}
}
