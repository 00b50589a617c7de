package servers_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

func TestNATSKeepsStreamsOverShutdownAndRestart(t *testing.T) {
	t.Parallel()
	server := servertest.StartNATS(t)
	lost, back := make(chan struct{}, 1), make(chan struct{}, 1)
	conn, err := nats.Connect(server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { lost <- struct{}{} }),
		nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "orders.new", []byte("first")); err != nil {
		t.Fatal(err)
	}

	for range 2 { // The second time there is nothing to do, and no error.
		if err := server.Shutdown(); err != nil {
			t.Fatal(err)
		}
	}
	<-lost
	if _, err := nats.Connect(server.URL()); err == nil {
		t.Fatal("a server that was shut down accepted a connection")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-back

	msg, err := stream.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if string(msg.Data) != "first" {
		t.Errorf("message 1 after the restart: %q, want %q", msg.Data, "first")
	}
}

func TestOpenNATSLeavesTheServerOfTheEnvironmentAlone(t *testing.T) {
	own := servertest.StartNATS(t)
	t.Setenv("NATS_URL", own.URL())
	server, err := servers.OpenNATS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !server.External() || server.URL() != own.URL() {
		t.Errorf("external %t at %s", server.External(), server.URL())
	}
	for act, err := range map[string]error{"shut down": server.Shutdown(), "restart": server.Restart(t.Context())} {
		if !errors.Is(err, servers.ErrExternal) {
			t.Errorf("%s: %v, want %v", act, err, servers.ErrExternal)
		}
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(servertest.NATS(t))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := own.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := servers.OpenNATS(t.Context()); err == nil {
		t.Error("a server that does not answer was opened")
	}
}

func TestNATSRestartSaysThatItsPortIsTaken(t *testing.T) {
	t.Parallel()
	server := servertest.StartNATS(t)
	if err := server.Shutdown(); err != nil {
		t.Fatal(err)
	}
	rival, err := net.Listen("tcp", strings.TrimPrefix(server.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "servers: restart nats: it cannot listen") {
		t.Errorf("restart on a port that is taken: %v", err)
	}
	if err := rival.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Errorf("restart on the port that is free again: %v", err)
	}
}
