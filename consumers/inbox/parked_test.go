package inbox_test

import (
	"context"
	"errors"
	"strings"
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

func TestWorkBeyondItsLimitUsesUpAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs atomic.Int64
	in := w.inbox(func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		runs.Add(1)
		if err := effect(ctx, tx, m); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
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
