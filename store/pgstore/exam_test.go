package pgstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
	"github.com/semel-dev/semel/store/storetest"
)

func TestMarks(t *testing.T) {
	t.Parallel()
	places := newPlaces(t)
	storetest.TestMarks(t, storetest.MarksHarness[pgx.Tx]{
		New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[pgx.Tx] {
			p := places(t, lockWait)
			return storetest.MarksPlace[pgx.Tx]{
				Open:    func() store.Marks[pgx.Tx] { return p.open() },
				Effect:  txEffect,
				Effects: p.effects,
				Spoil: func(ctx context.Context, tx pgx.Tx) {
					_, _ = tx.Exec(ctx, "select 1/0")
				},
				InTx: func(ctx context.Context, fn func(tx pgx.Tx) error) error {
					return pgx.BeginFunc(ctx, p.pool, fn)
				},
				AwaitBlocked: p.awaitBlocked,
			}
		},
	})
}

func TestQueuedMarks(t *testing.T) {
	t.Parallel()
	places := newPlaces(t)
	storetest.TestMarks(t, storetest.MarksHarness[*pgx.Batch]{
		New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[*pgx.Batch] {
			p := places(t, lockWait)
			return storetest.MarksPlace[*pgx.Batch]{
				Open:         func() store.Marks[*pgx.Batch] { return p.open().Queued() },
				Effect:       queuedEffect,
				Effects:      p.effects,
				AwaitBlocked: p.awaitBlocked,
			}
		},
		NoTxMarker: true,
	})
}

func txEffect(ctx context.Context, tx pgx.Tx, name string) error {
	_, err := tx.Exec(ctx, "insert into effects values ($1)", name)
	return err
}

func queuedEffect(_ context.Context, b *pgx.Batch, name string) error {
	b.Queue("insert into effects values ($1)", name)
	return nil
}

func TestLeases(t *testing.T) {
	t.Parallel()
	places := newPlaces(t)
	storetest.TestLeases(t, storetest.LeasesHarness{
		New: func(t *testing.T) storetest.LeasesPlace {
			p := places(t, time.Second)
			return storetest.LeasesPlace{Open: func() store.Leases { return p.open() }}
		},
	})
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	places := newPlaces(t)
	storetest.TestDeadLetters(t, storetest.DeadLettersHarness[pgx.Tx]{
		New: func(t *testing.T, lockWait time.Duration) storetest.DeadLettersPlace[pgx.Tx] {
			p := places(t, lockWait)
			s := p.open()
			return storetest.DeadLettersPlace[pgx.Tx]{
				Marks: s, Burier: s, Letters: s, Reviver: s,
				Effect: txEffect, Effects: p.effects, AwaitBlocked: p.awaitBlocked,
			}
		},
	})
}

func TestQueuedDeadLetters(t *testing.T) {
	t.Parallel()
	places := newPlaces(t)
	storetest.TestDeadLetters(t, storetest.DeadLettersHarness[*pgx.Batch]{
		New: func(t *testing.T, lockWait time.Duration) storetest.DeadLettersPlace[*pgx.Batch] {
			p := places(t, lockWait)
			s := p.open().Queued()
			return storetest.DeadLettersPlace[*pgx.Batch]{
				Marks: s, Burier: s, Letters: s, Reviver: s,
				Effect: queuedEffect, Effects: p.effects, AwaitBlocked: p.awaitBlocked,
			}
		},
	})
}

// place is one schema and the stores on it. The cases of an exam share a database: making
// one takes longer than most cases.
type place struct {
	t        *testing.T
	schema   string
	pool     *pgxpool.Pool
	lockWait time.Duration
}

func newPlaces(t *testing.T) func(t *testing.T, lockWait time.Duration) *place {
	dsn := servertest.Postgres(t)
	var number atomic.Int32
	return func(t *testing.T, lockWait time.Duration) *place {
		p := &place{t: t, schema: fmt.Sprintf("Exam %d", number.Add(1)), lockWait: lockWait}
		p.pool = newPool(t, dsn, p.configure)
		if err := pgstore.Migrate(t.Context(), p.pool, pgstore.WithSchema(p.schema), pgstore.WithPartitions(365*24*time.Hour, 0)); err != nil {
			t.Fatal(err)
		}
		exec(t, p.pool, "create table effects (name text not null)")
		return p
	}
}

// configure marks the connections with the schema's name, for awaitBlocked, and makes the
// schema the one where unqualified names are found, for the effects.
func (p *place) configure(c *pgxpool.Config) {
	c.MaxConns = 12
	c.ConnConfig.RuntimeParams["application_name"] = p.schema
	c.ConnConfig.RuntimeParams["search_path"] = fmt.Sprintf("%q", p.schema)
}

// open makes a store with a pool of its own, as another process has.
func (p *place) open() *pgstore.Store {
	pool := newPool(p.t, p.pool.Config().ConnString(), p.configure)
	return newStore(p.t, pool, pgstore.WithLockWait(p.lockWait), pgstore.WithSchema(p.schema))
}

func (p *place) effects(name string) int {
	return int(queryOne[int64](p.t, p.pool, "select count(*) from effects where name = $1", name))
}

// awaitBlocked asks the server who waits.
func (p *place) awaitBlocked(n int) {
	for {
		waiting := queryOne[int64](p.t, p.pool, `select count(*) from pg_stat_activity
			where application_name = $1 and wait_event_type = 'Lock'`, p.schema)
		if int(waiting) >= n {
			return
		}
		select {
		case <-p.t.Context().Done():
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}
