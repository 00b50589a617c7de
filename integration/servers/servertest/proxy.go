package servertest

import (
	"testing"

	"github.com/semel-dev/semel/integration/servers"
)

// Proxy returns a proxy in front of the PostgreSQL server of dsn that can lose the COMMITs of clients that connect with
// its DSN, or the answers to them. It is closed when t ends.
func Proxy(t testing.TB, dsn string) *servers.PostgresProxy {
	t.Helper()
	proxy, err := servers.StartPostgresProxy(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy
}
