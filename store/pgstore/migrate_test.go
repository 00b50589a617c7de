package pgstore_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store/pgstore"
)

// fewPartitions keeps tests short that are not about partitions.
var fewPartitions = pgstore.WithPartitions(365*24*time.Hour, 0)

// contents are the relations of a schema.
func contents(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 order by 1", schema)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestMigrateTwiceDoesNothingMore(t *testing.T) {
	t.Parallel()
	pool := newPool(t, servertest.Postgres(t))
	if err := pgstore.Migrate(t.Context(), pool, fewPartitions); err != nil {
		t.Fatal(err)
	}
	const versions = "select string_agg(version || name || applied_at, ' ' order by version) from semel.migrations"
	before, at := contents(t, pool, "semel"), queryOne[string](t, pool, versions)
	if err := pgstore.Migrate(t.Context(), pool, fewPartitions); err != nil {
		t.Fatal(err)
	}
	if after := contents(t, pool, "semel"); !slices.Equal(before, after) {
		t.Errorf("before: %v\nafter: %v", before, after)
	}
	if now := queryOne[string](t, pool, versions); now != at {
		t.Errorf("before: %s\nafter: %s", at, now)
	}
}

// All replicas of a program are deployed at once, on a database that may have any default.
func TestMigrateByManyAtOnce(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			dsn := servertest.Postgres(t)
			start := make(chan struct{})
			var wg sync.WaitGroup
			for range 8 {
				pool := newPool(t, dsn, func(c *pgxpool.Config) {
					c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
				})
				if err := pool.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					<-start
					if err := pgstore.Migrate(t.Context(), pool, fewPartitions); err != nil {
						t.Error(err)
					}
				})
			}
			close(start)
			wg.Wait()
			s := newStore(t, newPool(t, dsn))
			begin(t, s, plainMark(scopeOf(t, s), "m"))
		})
	}
}

func TestNewerVersionIsLeftAlone(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	exec(t, pool, "insert into semel.migrations (version, name) values (1000, 'future')")
	err := pgstore.Migrate(t.Context(), pool)
	if err == nil || !strings.Contains(err.Error(), "the database is at version 1000") || !strings.Contains(err.Error(), "update the package, not the database") {
		t.Errorf("Migrate: %v", err)
	}
	// A program of the version before goes on while the new one is deployed.
	s := newStore(t, pool)
	begin(t, s, plainMark(scopeOf(t, s), "m"))
}

func TestFailedStepLeavesNothing(t *testing.T) {
	t.Parallel()
	pool := newPool(t, servertest.Postgres(t))
	steps, err := pgstore.Migrations("semel")
	if err != nil {
		t.Fatal(err)
	}
	// Something of the user's is in the way of the last step.
	exec(t, pool, "create schema semel; create table semel.dead_letters ()")
	err = pgstore.Migrate(t.Context(), pool, fewPartitions)
	wantCode(t, err, "42P07")
	if err == nil || !strings.Contains(err.Error(), "step 4 (dead_letters)") {
		t.Errorf("Migrate: %v, want the step of %d named", err, len(steps))
	}
	if names := contents(t, pool, "semel"); !slices.Equal(names, []string{"dead_letters"}) {
		t.Errorf("the schema has %v", names)
	}
}

func TestDownUndoesEverything(t *testing.T) {
	t.Parallel()
	const schema = "up and down"
	pool := newPool(t, servertest.Postgres(t))
	steps, err := pgstore.Migrations(schema)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := pgstore.Migrate(t.Context(), pool, pgstore.WithSchema(schema), fewPartitions); err != nil {
			t.Fatal(err)
		}
		for _, step := range slices.Backward(steps) {
			exec(t, pool, step.Down)
			exec(t, pool, `delete from "up and down".migrations where version = $1`, step.Version)
		}
		if names := contents(t, pool, schema); !slices.Equal(names, []string{"migrations", "migrations_pkey"}) {
			t.Errorf("what is left: %v", names)
		}
	}
}

func TestMigrationsAreNumberedWithoutGaps(t *testing.T) {
	t.Parallel()
	steps, err := pgstore.Migrations("semel")
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range steps {
		if step.Version != i+1 || step.Name == "" || step.Up == "" || step.Down == "" {
			t.Errorf("step %d is %d (%s)", i+1, step.Version, step.Name)
		}
		if strings.Contains(step.Up+step.Down, "{schema}") {
			t.Errorf("step %d has no schema", step.Version)
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, make := range map[string]func() error{
		"pgstore: the pool is nil: make one with pgxpool.New":                                                                                      func() error { _, err := pgstore.New(nil); return err },
		"pgstore: an option is nil":                                                                                                                newWith(nil),
		"pgstore: WithLockWait(0s): the least is 1ms; a wait without limit is not offered":                                                         newWith(pgstore.WithLockWait(0)),
		"pgstore: WithLockWait(600h0m0s): PostgreSQL takes 24 days at most":                                                                        newWith(pgstore.WithLockWait(600 * time.Hour)),
		"pgstore: WithAcquireWait(-1s): the limit must be above zero":                                                                              newWith(pgstore.WithAcquireWait(-time.Second)),
		`pgstore: WithIsolation("read uncommitted"): use pgx.ReadCommitted, pgx.RepeatableRead or pgx.Serializable`:                                newWith(pgstore.WithIsolation(pgx.ReadUncommitted)),
		"pgstore: migrate: an option is nil":                                                                                                       migrateWith(nil),
		"pgstore: migrate: WithPartitions: a width of 1m0s is too small; an hour is the least, a week the default":                                 migrateWith(pgstore.WithPartitions(time.Minute, 0)),
		"pgstore: migrate: WithPartitions: ahead is -1h0m0s; it must not be negative":                                                              migrateWith(pgstore.WithPartitions(time.Hour, -time.Hour)),
		"pgstore: migrate: WithPartitions: 8760h0m0s ahead in steps of 1h0m0s are more than 2000 partitions; take a larger width":                  migrateWith(pgstore.WithPartitions(time.Hour, 365*24*time.Hour)),
		"pgstore: migrate: WithPartitions: 2562047h47m16.854775807s ahead in steps of 168h0m0s are more than 2000 partitions; take a larger width": migrateWith(pgstore.WithPartitions(7*24*time.Hour, 1<<63-1)),
	} {
		if err := make(); err == nil || err.Error() != want {
			t.Errorf("the error is %v\nwant: %s", err, want)
		}
	}
}

func newWith(o pgstore.Option) func() error {
	return func() error { _, err := pgstore.New(new(pgxpool.Pool), o); return err }
}

func migrateWith(o pgstore.MigrateOption) func() error {
	return func() error { return pgstore.Migrate(context.Background(), new(pgxpool.Pool), o) }
}

// The connection of Migrate may be a pool, a connection or a transaction of the caller's.
func TestMigrateInATransaction(t *testing.T) {
	t.Parallel()
	pool := newPool(t, servertest.Postgres(t))
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := pgstore.Migrate(t.Context(), tx, fewPartitions); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := contents(t, pool, "semel"); len(names) != 0 {
		t.Errorf("after a rollback there is %v", names)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := pgstore.Migrate(t.Context(), conn, fewPartitions); err != nil {
		t.Fatal(err)
	}
}
