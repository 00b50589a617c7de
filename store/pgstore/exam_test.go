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

func TestFences(t *testing.T) {
	t.Parallel()
	for name, view := range map[string]struct {
		open func(s *pgstore.Store) store.Marks[pgx.Tx]
		keys bool
	}{
		"positions":          {func(s *pgstore.Store) store.Marks[pgx.Tx] { return s.Fenced() }, false},
		"positions and keys": {func(s *pgstore.Store) store.Marks[pgx.Tx] { return s.FencedMarks() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			places := newPlaces(t)
			storetest.TestFences(t, storetest.FencesHarness[pgx.Tx]{
				Keys: view.keys,
				New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[pgx.Tx] {
					p := places(t, lockWait)
					return storetest.MarksPlace[pgx.Tx]{
						Open:   func() store.Marks[pgx.Tx] { return view.open(p.open()) },
						Effect: txEffect, Effects: p.effects, AwaitBlocked: p.awaitBlocked,
						InTx: func(ctx context.Context, fn func(tx pgx.Tx) error) error {
							return pgx.BeginFunc(ctx, p.pool, fn)
						},
					}
				},
			})
		})
	}
}

func TestQueuedFences(t *testing.T) {
	t.Parallel()
	for name, view := range map[string]struct {
		open func(s *pgstore.Store) store.Marks[*pgx.Batch]
		keys bool
	}{
		"positions":          {func(s *pgstore.Store) store.Marks[*pgx.Batch] { return s.Fenced().Queued() }, false},
		"positions and keys": {func(s *pgstore.Store) store.Marks[*pgx.Batch] { return s.FencedMarks().Queued() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			places := newPlaces(t)
			storetest.TestFences(t, storetest.FencesHarness[*pgx.Batch]{
				Keys: view.keys,
				New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[*pgx.Batch] {
					p := places(t, lockWait)
					return storetest.MarksPlace[*pgx.Batch]{
						Open:   func() store.Marks[*pgx.Batch] { return view.open(p.open()) },
						Effect: queuedEffect, Effects: p.effects, AwaitBlocked: p.awaitBlocked,
					}
				},
			})
		})
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	places := newPlaces(t)
	storetest.TestAttempts(t, storetest.AttemptsHarness{
		New: func(t *testing.T) storetest.AttemptsPlace {
			p := places(t, time.Second)
			return storetest.AttemptsPlace{Open: func() storetest.AttemptsStore { return p.open() }}
		},
	})
}

func TestRetention(t *testing.T) {
	t.Parallel()
	places := newPlacesOf(t, 7*24*time.Hour)
	storetest.TestRetention(t, storetest.RetentionHarness[pgx.Tx]{
		New: func(t *testing.T) storetest.RetentionPlace[pgx.Tx] {
			p := places(t, time.Minute)
			return storetest.RetentionPlace[pgx.Tx]{
				MarksPlace: storetest.MarksPlace[pgx.Tx]{
					Open:   func() store.Marks[pgx.Tx] { return p.open() },
					Effect: txEffect, Effects: p.effects, AwaitBlocked: p.awaitBlocked,
					InTx: func(ctx context.Context, fn func(tx pgx.Tx) error) error {
						return pgx.BeginFunc(ctx, p.pool, fn)
					},
				},
				Purge: p.purge,
			}
		},
	})
}

func TestQueuedRetention(t *testing.T) {
	t.Parallel()
	places := newPlacesOf(t, 7*24*time.Hour)
	storetest.TestRetention(t, storetest.RetentionHarness[*pgx.Batch]{
		NoTxMarker: true,
		New: func(t *testing.T) storetest.RetentionPlace[*pgx.Batch] {
			p := places(t, time.Minute)
			return storetest.RetentionPlace[*pgx.Batch]{
				MarksPlace: storetest.MarksPlace[*pgx.Batch]{
					Open:   func() store.Marks[*pgx.Batch] { return p.open().Queued() },
					Effect: queuedEffect, Effects: p.effects, AwaitBlocked: p.awaitBlocked,
				},
				Purge: p.purge,
			}
		},
	})
}

// Above READ COMMITTED a statement does not see what was committed while it waited for a lock.
func TestAboveReadCommitted(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			places := newPlaces(t)
			storetest.TestDeadLetters(t, storetest.DeadLettersHarness[pgx.Tx]{
				Conflicts: true,
				New: func(t *testing.T, lockWait time.Duration) storetest.DeadLettersPlace[pgx.Tx] {
					p := places(t, lockWait)
					s := p.open(pgstore.WithIsolation(level))
					return storetest.DeadLettersPlace[pgx.Tx]{
						Marks: s, Burier: s, Letters: s, Reviver: s,
						Effect: txEffect, Effects: p.effects, AwaitBlocked: p.awaitBlocked,
					}
				},
			})
			storetest.TestFences(t, storetest.FencesHarness[pgx.Tx]{
				Conflicts: true,
				New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[pgx.Tx] {
					p := places(t, lockWait)
					return storetest.MarksPlace[pgx.Tx]{
						Open:   func() store.Marks[pgx.Tx] { return p.open(pgstore.WithIsolation(level)).Fenced() },
						Effect: txEffect, Effects: p.effects, AwaitBlocked: p.awaitBlocked,
					}
				},
			})
		})
	}
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
	return newPlacesOf(t, 365*24*time.Hour)
}

// newPlacesOf says how wide the partitions are: what is in one of them is removed together.
func newPlacesOf(t *testing.T, width time.Duration) func(t *testing.T, lockWait time.Duration) *place {
	dsn := servertest.Postgres(t)
	var number atomic.Int32
	return func(t *testing.T, lockWait time.Duration) *place {
		p := &place{t: t, schema: fmt.Sprintf("Exam %d", number.Add(1)), lockWait: lockWait}
		p.pool = newPool(t, dsn, p.configure)
		if err := pgstore.Migrate(t.Context(), p.pool, pgstore.WithSchema(p.schema), pgstore.WithPartitions(width, 0)); err != nil {
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
func (p *place) open(opts ...pgstore.Option) *pgstore.Store {
	pool := newPool(p.t, p.pool.Config().ConnString(), p.configure)
	return newStore(p.t, pool, append(opts, pgstore.WithLockWait(p.lockWait), pgstore.WithSchema(p.schema))...)
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

// purge makes one whole pass. The other cases' statements, which the pass may have to wait for, are
// over long before it gives up.
func (p *place) purge(ctx context.Context) error {
	purger, err := pgstore.NewPurger(p.open(), pgstore.WithSnapshotWait(time.Minute))
	if err != nil {
		return err
	}
	done, err := purger.Purge(ctx)
	if err == nil && (done.Elsewhere || done.Snapshot != nil || len(done.Locked) > 0) {
		err = fmt.Errorf("the purge did not do all: %+v", done)
	}
	return err
}
