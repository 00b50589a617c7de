package servers_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func query[T any](t *testing.T, conn *pgx.Conn, sql string) (value T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func TestPostgresKeepsCommittedRowsOverCrashAndRestart(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	conn := connect(t, server.DSN())
	execute(t, conn, "create table kept (id int)")
	execute(t, conn, "insert into kept values (1)")
	open := connect(t, server.DSN())
	execute(t, open, "begin")
	execute(t, open, "insert into kept values (2)")

	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "select 1"); err == nil {
		t.Fatal("the session survived the crash")
	}
	if _, err := pgx.Connect(t.Context(), server.DSN()); err == nil {
		t.Fatal("a crashed server accepted a connection")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}

	again := connect(t, server.DSN())
	if got := query[int](t, again, "select sum(id) from kept"); got != 1 {
		t.Fatalf("sum of ids after the crash: %d, want 1: the committed row and not the open one", got)
	}
}

func TestPostgresRestartEndsSessionsOfARunningServer(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	conn := connect(t, server.DSN())
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "select 1"); err == nil {
		t.Fatal("the session survived the restart")
	}
	connect(t, server.DSN())
}

func TestPostgresStopRemovesTheServerAndItsData(t *testing.T) {
	t.Parallel()
	server, err := servers.StartPostgres(t.Context(), servers.WithFsync(false))
	if err != nil {
		t.Fatal(err)
	}
	dir := query[string](t, connect(t, server.DSN()), "show data_directory")
	for range 2 { // The second time there is nothing to do, and no error.
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("data directory after Stop: %v, want that it does not exist", err)
	}
	if err := server.Restart(t.Context()); err == nil {
		t.Error("a stopped server was restarted without its data")
	}
}

func TestPostgresObeysOptions(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t,
		servers.WithFsync(true), servers.WithMaxConnections(17), servers.WithSetting("work_mem", "3MB"), servers.WithSetting("work_mem", "5MB"))
	conn := connect(t, server.DSN())
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "max_connections": "17", "work_mem": "5MB", "listen_addresses": "127.0.0.1",
		"server_encoding": "UTF8", "wal_level": "replica",
	} {
		if got := query[string](t, conn, "show "+name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	fast := connect(t, servertest.StartPostgres(t).DSN())
	for name, want := range map[string]string{"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"} {
		if got := query[string](t, fast, "show "+name); got != want {
			t.Errorf("without fsync: %s = %s, want %s", name, got, want)
		}
	}
}

func TestPostgresSaysWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	_, err := servers.StartPostgres(t.Context(), servers.WithSetting("no_such_setting", "1"))
	if err == nil || !strings.HasPrefix(err.Error(), "servers: start postgres: ") || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("a setting that the server does not know: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := servers.StartPostgres(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v, want %v", err, context.Canceled)
	}
}

func TestOpenPostgresLeavesTheServerOfTheEnvironmentAlone(t *testing.T) {
	own := servertest.StartPostgres(t)
	for name, dsn := range map[string]string{
		"URL":           own.DSN(),
		"keyword/value": strings.NewReplacer("postgres://postgres@127.0.0.1:", "host=127.0.0.1 user=postgres port=", "/postgres?", " dbname=postgres ").Replace(own.DSN()),
	} {
		t.Setenv("DATABASE_URL", dsn)
		server, err := servers.OpenPostgres(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !server.External() || server.DSN() != dsn {
			t.Errorf("%s: external %t at %q", name, server.External(), server.DSN())
		}
		for act, err := range map[string]error{"crash": server.Crash(), "restart": server.Restart(t.Context())} {
			if !errors.Is(err, servers.ErrExternal) {
				t.Errorf("%s: %s: %v, want %v", name, act, err, servers.ErrExternal)
			}
		}
		made, err := server.CreateDatabase(t.Context(), `it's "odd"`)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := query[string](t, connect(t, made), "select current_database()"); got != `it's "odd"` {
			t.Errorf("%s: connected to the database %q", name, got)
		}
		if err := server.DropDatabase(t.Context(), `it's "odd"`); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := server.Stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		connect(t, own.DSN())
	}
	if err := own.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := servers.OpenPostgres(t.Context()); err == nil {
		t.Error("a server that does not answer was opened")
	}
}

func TestServertestGivesEachCallADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	name := "select current_database()"
	conn := connect(t, servertest.Postgres(t))
	var dropped string
	t.Run("inner", func(t *testing.T) {
		dropped = query[string](t, connect(t, servertest.Postgres(t)), name) // The session is open when the test ends.
	})
	if kept := query[string](t, conn, name); dropped == kept {
		t.Errorf("two calls got the same database %s", kept)
	}
	if query[bool](t, conn, "select exists (select from pg_database where datname = '"+dropped+"')") {
		t.Error("the database of a test that has ended is still there")
	}
}
