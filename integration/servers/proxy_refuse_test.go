package servers_test

import (
	"testing"
	"time"

	"github.com/semel-dev/semel/integration/servers"
)

func TestProxyThatRefusesCutsAndAcceptsNobodyUntilItAdmitsAgain(t *testing.T) {
	proxy := startProxy(t, echo(t))
	before := dial(t, proxy.Addr())
	if !answers(before) {
		t.Fatal("nothing passes a new proxy")
	}

	proxy.Refuse()

	if answers(before) {
		t.Error("a connection of before goes on")
	}
	if answers(dial(t, proxy.Addr())) {
		t.Error("a new connection is served")
	}
	proxy.Admit()
	if !answers(dial(t, proxy.Addr())) {
		t.Error("nothing passes after Admit")
	}
}

func TestFreePortIsNeverHandedOutTwice(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := servers.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d came twice", port)
		}
		seen[port] = true
	}
}

// answers sends a byte and tells whether it comes back.
func answers(conn client) bool {
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte{1}); err != nil {
		return false
	}
	n, err := conn.Read(make([]byte, 1))
	return n == 1 && err == nil
}
