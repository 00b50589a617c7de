package servers_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/semel-dev/semel/integration/servers"
)

// echo answers each line with the same line, until its client ends.
func echo(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

func startProxy(t *testing.T, target string) *servers.Proxy {
	t.Helper()
	proxy, err := servers.StartProxy(target)
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

type client struct {
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, addr string) client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{conn, bufio.NewReader(conn)}
}

func (c client) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (c client) hear(t *testing.T, want string) {
	t.Helper()
	if got, err := c.lines.ReadString('\n'); err != nil || got != want+"\n" {
		t.Fatalf("heard %q, error %v; want %q", got, err, want)
	}
}

func TestProxyCarriesBothDirectionsAndTheEndOfEach(t *testing.T) {
	t.Parallel()
	c := dial(t, startProxy(t, echo(t)).Addr())
	c.say(t, "one")
	c.hear(t, "one")
	c.say(t, "two")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.hear(t, "two")
	if _, err := c.lines.ReadByte(); err != io.EOF {
		t.Fatalf("after both ends closed: %v, want the end of the stream", err)
	}
}

func TestProxyHoldsBytesWhileFrozen(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t, echo(t))
	c := dial(t, proxy.Addr())
	c.say(t, "before")
	c.hear(t, "before")

	proxy.Freeze()
	c.say(t, "held")
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := c.lines.Peek(1); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("a read through a frozen proxy: %v, want a timeout", err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	proxy.Thaw()

	c.hear(t, "held")
}

func TestProxyCutsConnectionsThatAreOpenAndAcceptsNewOnes(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t, echo(t))
	old := dial(t, proxy.Addr())
	old.say(t, "old")
	old.hear(t, "old")
	frozen := dial(t, proxy.Addr())
	proxy.Freeze()
	frozen.say(t, "held")

	proxy.CutAll()
	proxy.Thaw()

	if _, err := old.lines.ReadByte(); err == nil {
		t.Error("the old connection survived")
	}
	next := dial(t, proxy.Addr())
	next.say(t, "new")
	next.hear(t, "new")
}

func TestProxyDisconnectsAClientWhoseServerIsDown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := dial(t, startProxy(t, addr).Addr())
	if _, err := c.lines.ReadByte(); err == nil {
		t.Fatal("read from a server that is down")
	}
}

func TestProxyCloseEndsFrozenConnections(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t, echo(t))
	c := dial(t, proxy.Addr())
	proxy.Freeze()
	c.say(t, "held")
	closed := make(chan error, 1)
	go func() { closed <- proxy.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case err := <-closed:
		if err != nil {
			t.Fatal(err)
		}
	case <-ctx.Done():
		t.Fatal("Close waits for a frozen connection")
	}
	if _, err := net.Dial("tcp", proxy.Addr()); err == nil {
		t.Fatal("a closed proxy accepted a connection")
	}
}
