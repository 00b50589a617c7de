package servertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/semel-dev/semel/integration/servers"
)

var postgres shared[*servers.Postgres]

// Postgres returns the connection string of a new, empty database that is dropped, with all its sessions, when t ends.
// The server is shared by the tests of the process: the one of DATABASE_URL, whose user must be allowed to create
// databases, or one that is started without fsync. Tests may call it in parallel. A test that crashes or restarts the
// server takes one of its own from [StartPostgres] instead.
func Postgres(t testing.TB) (dsn string) {
	t.Helper()
	server, err := postgres.get(func(ctx context.Context) (*servers.Postgres, error) {
		return servers.OpenPostgres(ctx, servers.WithFsync(false))
	}, (*servers.Postgres).Stop)
	if err != nil {
		t.Fatalf("this test needs PostgreSQL: install its server, or set DATABASE_URL: %v", err)
	}
	name := databaseName()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dsn, err = server.CreateDatabase(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return dsn
}

// StartPostgres returns a server that belongs to t, for tests that crash or restart it. It runs without fsync unless an
// option says otherwise, and is stopped when t ends.
func StartPostgres(t testing.TB, opts ...servers.PostgresOption) *servers.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	server, err := servers.StartPostgres(ctx, append([]servers.PostgresOption{servers.WithFsync(false)}, opts...)...)
	if err != nil {
		t.Fatalf("this test needs the programs of a PostgreSQL server: install one: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// databaseName is unlike that of any other test, even of another process on the same server.
func databaseName() string {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // It never returns an error; it crashes the program instead.
	return "semel_test_" + hex.EncodeToString(b[:])
}
