package servertest

import (
	"context"
	"testing"

	"github.com/semel-dev/semel/integration/servers"
)

// NATS returns the address of a NATS server with JetStream that belongs to t and is stopped when t ends: streams are
// found by subject, so tests in parallel would be in each other's way on one server. With NATS_URL it is that server
// instead, and such tests must name streams and subjects that are theirs alone.
func NATS(t testing.TB) (url string) {
	t.Helper()
	return startNATS(t, servers.OpenNATS, nil).URL()
}

// StartNATS returns a server that belongs to t, for tests that shut it down and restart it.
func StartNATS(t testing.TB, opts ...servers.NATSOption) *servers.NATS {
	t.Helper()
	return startNATS(t, servers.StartNATS, opts)
}

func startNATS(t testing.TB, open func(context.Context, ...servers.NATSOption) (*servers.NATS, error), opts []servers.NATSOption) *servers.NATS {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	server, err := open(ctx, opts...)
	if err != nil {
		t.Fatalf("this test needs NATS, which runs inside the test unless NATS_URL names a server: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}
