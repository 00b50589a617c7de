package kafkasub_test

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store/pgstore"
)

// patience leaves a message that is not settled alone until the consumer is stopped.
var patience = kafkasub.WithPolicy(consumers.Policy{MaxAttempts: 10, MinDelay: time.Hour, MaxDelay: time.Hour})

// takeover is a message, a database, and how the consumer of the message gets there.
type takeover struct {
	broker *servers.Kfake
	pool   *pgxpool.Pool // of the test
	proxy  *servers.PostgresProxy
	guard  *dedup.TxGuard[pgx.Tx] // through the proxy
}

func (o *takeover) starts(t *testing.T) int {
	t.Helper()
	return number(t, o.pool, "select coalesce(sum(starts), 0) from semel.attempts")
}

// The process dies of something else each time that it has a message in hand which was busy, met
// an outage or a conflict, or was cancelled. That message comes to its effect all the same.
func TestMessageThatMeetsAFaultAtEveryTakeoverIsNotTakenForDeadly(t *testing.T) {
	t.Parallel()
	const takeovers = 6 // more than deaths are granted to a deadly message
	server := servertest.StartPostgres(t)
	for name, fault := range map[string]struct {
		begin func(t *testing.T, o *takeover) (end func()) // before the consumer
		meet  func(ctx context.Context, o *takeover, tx pgx.Tx) error
		// kept says that the start cannot be taken back before the partition is left.
		kept     bool
		cancel   bool
		lockWait time.Duration // long, unless a lock is the fault: the server may notice late that a connection was cut
	}{
		"busy": {begin: holdMark, lockWait: 20 * time.Millisecond},
		"conflict": {meet: func(ctx context.Context, _ *takeover, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "do $$ begin raise exception using errcode = '40001'; end $$")
			return err
		}},
		"outage": {kept: true, meet: func(ctx context.Context, o *takeover, tx pgx.Tx) error {
			o.proxy.Refuse()
			_, err := tx.Exec(ctx, "select 1")
			return err
		}},
		"cancelled": {kept: true, cancel: true, meet: func(ctx context.Context, _ *takeover, _ pgx.Tx) error {
			<-ctx.Done()
			return ctx.Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &takeover{broker: startBroker(t, 1)}
			dsn, pool := effects(t, server, name)
			o.pool, o.proxy = pool, servertest.Proxy(t, dsn)
			entered := make(chan struct{}, 1)
			var mended atomic.Bool
			o.guard = guardOf(t, poolTo(t, o.proxy.DSN()), cmp.Or(fault.lockWait, soon), func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
				if _, err := tx.Exec(ctx, "insert into effects (name) values ($1)", string(m.Body)); err != nil || mended.Load() {
					return err
				}
				select {
				case entered <- struct{}{}:
				default:
				}
				return fault.meet(ctx, o, tx)
			})
			produce(t, o.broker, 0, "m0")
			end := func() {}
			if fault.begin != nil {
				end = fault.begin(t, o)
			}
			for n := range takeovers {
				book, log := newLogBook(t)
				r := run(t, newConsumer(t, groupConfig(o.broker), o.guard, patience, log, kafkasub.WithDrain(10*time.Millisecond)))
				if fault.cancel {
					select {
					case <-entered:
					case <-time.After(soon):
						t.Fatalf("takeover %d: the handler is not called", n)
					}
					r.cancel()
				} else {
					eventually(t, "it is not settled", func() bool { return book.has("not settled; trying again") })
				}
				if want := n > 0 && fault.kept; !fault.cancel && (o.starts(t) > 0) != want {
					t.Errorf("takeover %d: %d starts are counted after the result", n, o.starts(t))
				}
				o.proxy.Admit()
				r.cancel()
				if err := r.wait(t); err != nil && !(fault.cancel && errors.Is(err, kafkasub.ErrNotClean)) {
					t.Fatal(err)
				}
				if got := o.starts(t); got != 0 {
					t.Errorf("takeover %d: %d starts stay counted", n, got)
				}
				// To whoever comes next it looks as if the process had died.
				if tag, err := o.pool.Exec(t.Context(), "update semel.tenures set has_left = false, owner = 'somebody who died'"); err != nil || tag.RowsAffected() != 1 {
					t.Fatal(tag, err)
				}
			}
			end()
			mended.Store(true)
			r := run(t, newConsumer(t, groupConfig(o.broker), o.guard, patience))
			untilCommitted(t, o.broker, 0, 1)
			r.stop(t)
			if applied, dead := number(t, pool, "select count(*) from effects"), number(t, pool, "select count(*) from semel.dead_letters"); applied != 1 || dead != 0 {
				t.Errorf("%d effects and %d dead letters, want its effect", applied, dead)
			}
			if n := number(t, pool, "select count(*) from semel.attempts"); n != 0 {
				t.Errorf("something is still counted of %d messages", n)
			}
		})
	}
}

func poolTo(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func guardOf(t *testing.T, pool *pgxpool.Pool, lockWait time.Duration, h dedup.TxHandlerFunc[pgx.Tx]) *dedup.TxGuard[pgx.Tx] {
	t.Helper()
	s, err := pgstore.New(pool, pgstore.WithLockWait(lockWait))
	if err != nil {
		t.Fatal(err)
	}
	g, err := dedup.NewTx(s, "billing", dedup.FromCoordinates(), dedup.Forever, h)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// holdMark is a rival that has the mark of the message in an open transaction, as one has
// that died with its host, until the server notices.
func holdMark(t *testing.T, o *takeover) (end func()) {
	t.Helper()
	held, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	rival := guardOf(t, o.pool, soon, func(context.Context, pgx.Tx, dedup.Message) error {
		close(held)
		<-release
		return errors.New("rolled back")
	})
	m := dedup.Message{Position: dedup.Position{Broker: "kafka", Log: topic, Time: timeOf(t, o.broker, 0, 0)}}
	go func() {
		defer close(done)
		rival.Process(context.Background(), m)
	}()
	<-held
	end = sync.OnceFunc(func() { close(release); <-done })
	t.Cleanup(end)
	return end
}
