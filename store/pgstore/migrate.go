package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/semel-dev/semel/store/internal/pgsql"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one numbered step of the schema.
type Migration struct {
	Version int
	Name    string
	// Up and Down are SQL for the schema that was asked for.
	Up, Down string
}

// Migrations returns all steps in order, for tools that run migrations themselves. Such
// a tool must also make partitions, for example by calling [Migrate] afterwards, which
// finds nothing else to do where the tool has recorded the versions in the table
// "migrations" (version integer primary key, name text, applied_at timestamptz).
func Migrations(schema string) ([]Migration, error) {
	if err := pgsql.CheckSchema(schema); err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	names, err := fs.Glob(migrationFiles, "migrations/*.up.sql")
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	steps := make([]Migration, 0, len(names))
	for _, up := range names {
		base := strings.TrimSuffix(strings.TrimPrefix(up, "migrations/"), ".up.sql")
		number, name, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("pgstore: migration %s has no number: %w", up, err)
		}
		step := Migration{Version: version, Name: name}
		if step.Up, err = readStep(up, schema); err != nil {
			return nil, err
		}
		if step.Down, err = readStep("migrations/"+base+".down.sql", schema); err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func readStep(file, schema string) (string, error) {
	b, err := migrationFiles.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("pgstore: %w", err)
	}
	return strings.ReplaceAll(string(b), "{schema}", quote(schema)), nil
}

// latestVersion is the schema that this version of the package works with.
func latestVersion() int {
	steps, err := Migrations("semel")
	if err != nil || len(steps) == 0 {
		panic(fmt.Sprintf("pgstore: embedded migrations are broken: %v", err))
	}
	return steps[len(steps)-1].Version
}

type migration struct {
	schema string
	width  time.Duration
	behind time.Duration
	ahead  time.Duration
}

type migrateOption func(*migration)

func (f migrateOption) applyMigrate(m *migration) { f(m) }

// WithPartitions says how much time one partition of the timed marks covers and how far
// ahead of now partitions are made. The default is a week and half a year. A smaller
// width lets old marks go in smaller steps; a partition of more than some ten million marks
// is a reason for one. Marks beyond the last partition go to the default partition: still
// correct, but no longer removable by dropping. Run [Migrate] again, at every deploy or
// by a timer, to keep ahead.
func WithPartitions(width, ahead time.Duration) MigrateOption {
	return migrateOption(func(m *migration) { m.width, m.ahead = width, ahead })
}

// Migrate brings the tables to the version of this package and makes partitions. It may
// be run any number of times and by many processes at once: one works, the others wait
// and find nothing to do. Each call is one transaction, so a crash leaves what was there
// before. It needs a role that may create tables in the schema, and the schema itself
// if it is missing.
//
// A database that is already at a newer version is left alone and reported as an error.
func Migrate(ctx context.Context, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, opts ...MigrateOption) error {
	const week = 7 * 24 * time.Hour
	m := migration{schema: "semel", width: week, behind: 2 * week, ahead: 26 * week}
	for _, o := range opts {
		if o == nil {
			return errors.New("pgstore: migrate: an option is nil")
		}
		o.applyMigrate(&m)
	}
	if err := m.validate(); err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return m.run(ctx, tx) })
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pg) && pg.Code == "42501":
		return fmt.Errorf("pgstore: migrate schema %q: %w: run it with the role that owns the schema, or with one that may create it", m.schema, err)
	default:
		return fmt.Errorf("pgstore: migrate schema %q: %w", m.schema, err)
	}
}

func (m migration) validate() error {
	switch {
	case m.width < time.Hour:
		return fmt.Errorf("WithPartitions: a width of %s is too small; an hour is the least, a week the default", m.width)
	case m.ahead < 0:
		return fmt.Errorf("WithPartitions: ahead is %s; it must not be negative", m.ahead)
	case m.ahead/m.width+m.behind/m.width > 2000:
		return fmt.Errorf("WithPartitions: %s ahead in steps of %s are more than 2000 partitions; take a larger width", m.ahead, m.width)
	}
	return pgsql.CheckSchema(m.schema)
}

func (m migration) run(ctx context.Context, tx pgx.Tx) error {
	// Above READ COMMITTED what was seen before the wait for the lock would be all that is seen
	// after it. SHOW takes no snapshot, so the level can still be changed.
	var level string
	if err := tx.QueryRow(ctx, "show transaction_isolation").Scan(&level); err != nil {
		return err
	}
	if level != string(pgx.ReadCommitted) {
		if _, err := tx.Exec(ctx, "set transaction isolation level read committed"); err != nil {
			return err
		}
	}
	// The lock belongs to the transaction, so that it works behind a pooler and cannot be
	// left behind by a process that dies.
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", m.lockKey()); err != nil {
		return err
	}
	at, err := m.currentVersion(ctx, tx)
	if err != nil {
		return err
	}
	steps, err := Migrations(m.schema)
	if err != nil {
		return err
	}
	if newest := steps[len(steps)-1].Version; at > newest {
		return fmt.Errorf("the database is at version %d and this package knows %d: update the package, not the database", at, newest)
	}
	for _, step := range steps {
		if step.Version <= at {
			continue
		}
		if _, err := tx.Exec(ctx, step.Up); err != nil {
			return fmt.Errorf("step %d (%s): %w", step.Version, step.Name, err)
		}
		if _, err := tx.Exec(ctx, "insert into "+quote(m.schema)+".migrations (version, name) values ($1, $2)", step.Version, step.Name); err != nil {
			return err
		}
	}
	return m.makePartitions(ctx, tx)
}

func (m migration) lockKey() int64 {
	h := fnv.New64a()
	h.Write([]byte("semel migrate " + m.schema))
	return int64(h.Sum64())
}

// currentVersion makes the schema and the table of versions where they are missing. It
// looks first, because CREATE ... IF NOT EXISTS asks for the right to create even where
// nothing is to be created.
func (m migration) currentVersion(ctx context.Context, tx pgx.Tx) (int, error) {
	var haveSchema, haveTable bool
	err := tx.QueryRow(ctx, `select exists (select from pg_namespace where nspname = $1),
		exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = 'migrations')`,
		m.schema).Scan(&haveSchema, &haveTable)
	if err != nil {
		return 0, err
	}
	if !haveSchema {
		if _, err := tx.Exec(ctx, "create schema "+quote(m.schema)); err != nil {
			return 0, err
		}
	}
	if !haveTable {
		_, err := tx.Exec(ctx, "create table "+quote(m.schema)+`.migrations (
			version integer primary key, name text not null, applied_at timestamptz not null default now())`)
		return 0, err
	}
	var version int
	err = tx.QueryRow(ctx, "select coalesce(max(version), 0) from "+quote(m.schema)+".migrations").Scan(&version)
	return version, err
}
