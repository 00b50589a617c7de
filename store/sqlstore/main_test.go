package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store/pgstore"
	"github.com/semel-dev/semel/store/sqlstore"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// drivers are the names under which the two drivers are known to database/sql.
var drivers = []string{"pgx", "postgres"}

// overDrivers runs a test with each driver.
func overDrivers(t *testing.T, test func(t *testing.T, driver string)) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			test(t, driver)
		})
	}
}

// place is one schema of a database. The cases of an exam share a database: making one takes longer
// than most cases.
type place struct {
	t        *testing.T
	driver   string
	dsn      string
	schema   string
	admin    *pgxpool.Pool
	lockWait time.Duration
}

func newPlaces(t *testing.T, driver string) func(t *testing.T, lockWait time.Duration) *place {
	dsn := servertest.Postgres(t)
	var number atomic.Int32
	return func(t *testing.T, lockWait time.Duration) *place {
		return newPlace(t, driver, dsn, fmt.Sprintf("Exam %d", number.Add(1)), lockWait)
	}
}

func newPlace(t *testing.T, driver, dsn, schema string, lockWait time.Duration) *place {
	t.Helper()
	p := &place{t: t, driver: driver, dsn: dsn, schema: schema, lockWait: lockWait}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 3
	config.ConnConfig.RuntimeParams["search_path"] = fmt.Sprintf("%q", schema)
	if p.admin, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.admin.Close)
	if err := pgstore.Migrate(t.Context(), p.admin, pgstore.WithSchema(schema), pgstore.WithPartitions(7*24*time.Hour, 0)); err != nil {
		t.Fatal(err)
	}
	p.exec("create table effects (name text not null)")
	return p
}

// fresh is a place in a database of its own.
func fresh(t *testing.T, driver string) *place {
	t.Helper()
	return newPlace(t, driver, servertest.Postgres(t), "semel", 5*time.Second)
}

// open makes a store with a sql.DB of its own, as another process has.
func (p *place) open(opts ...sqlstore.Option) *sqlstore.Store {
	p.t.Helper()
	return p.openOn(p.db(12), opts...)
}

func (p *place) openOn(db *sql.DB, opts ...sqlstore.Option) *sqlstore.Store {
	p.t.Helper()
	s, err := sqlstore.New(db, append([]sqlstore.Option{sqlstore.WithLockWait(p.lockWait), sqlstore.WithSchema(p.schema)}, opts...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// db opens a sql.DB whose connections bear the schema's name, for awaitBlocked, and find
// unqualified names there, for the effects.
func (p *place) db(connections int, settings ...string) *sql.DB {
	p.t.Helper()
	return p.dbOn(p.dsn, connections, settings...)
}

func (p *place) dbOn(dsn string, connections int, settings ...string) *sql.DB {
	p.t.Helper()
	db, err := sql.Open(p.driver, withSettings(p.t, dsn, append([]string{
		"application_name", p.schema, "search_path", fmt.Sprintf("%q", p.schema)}, settings...)...))
	if err != nil {
		p.t.Fatal(err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	p.t.Cleanup(func() { _ = db.Close() })
	return db
}

func (p *place) exec(query string, args ...any) {
	p.t.Helper()
	if _, err := p.admin.Exec(p.t.Context(), query, args...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) effects(name string) int {
	p.t.Helper()
	return int(queryOne[int64](p.t, p.admin, "select count(*) from effects where name = $1", name))
}

// awaitBlocked returns when n sessions of the place wait for a lock.
func (p *place) awaitBlocked(n int) {
	await(p.t, func() bool {
		return int(queryOne[int64](p.t, p.admin, `select count(*) from pg_stat_activity
			where application_name = $1 and wait_event_type = 'Lock'`, p.schema)) >= n
	})
}

func queryOne[T any](t *testing.T, pool *pgxpool.Pool, query string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(context.Background(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// await asks the server again and again, because it gives no signal.
func await(t *testing.T, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ready(); {
		if time.Now().After(deadline) {
			t.Error("what was waited for did not come")
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
