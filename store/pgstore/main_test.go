package pgstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store/pgstore"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// newPool connects to a database; configure may change the settings.
func newPool(t *testing.T, dsn string, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range configure {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// migrated is a pool on a fresh database with the tables, and one for effects.
func migrated(t *testing.T, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	pool := newPool(t, servertest.Postgres(t), configure...)
	// Few partitions, for speed; TestPartitions has them all.
	if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(365*24*time.Hour, 0)); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "create table effects (name text not null)")
	return pool
}

func newStore(t *testing.T, pool *pgxpool.Pool, opts ...pgstore.Option) *pgstore.Store {
	t.Helper()
	s, err := pgstore.New(pool, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func queryOne[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return v
}
