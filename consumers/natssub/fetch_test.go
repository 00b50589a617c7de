package natssub_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/integration/servers"
)

// The client asks again when it misses the server's heartbeats, and when it has connected again. A server
// that was only silent, or has kept the former request until its client was back, serves both.
func TestWhatTheServerSendsForTwoRequestsIsNotThrownAway(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(t *testing.T, c *natssub.Consumer, js jetstream.JetStream, network *servers.Proxy){
		"silence": func(t *testing.T, c *natssub.Consumer, _ jetstream.JetStream, network *servers.Proxy) {
			network.Freeze()
			eventually(t, "that a heartbeat is missed", func() bool { return c.Ready() != nil })
		},
		"reconnect": func(t *testing.T, c *natssub.Consumer, js jetstream.JetStream, network *servers.Proxy) {
			network.CutAll()
			eventually(t, "a connection", func() bool { return js.Conn().Stats().Reconnects > 0 && c.Ready() == nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t)
			direct := b.connect()
			makeStream(t, direct)
			js, network := b.connectThrough()
			p := &processor{}
			c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable, AckWait: time.Hour}, p)
			if err != nil {
				t.Fatal(err)
			}
			r := start(t, c)
			eventually(t, "a request", func() bool { return c.Ready() == nil && info(t, direct).NumWaiting == 1 })
			disturb(t, c, js, network)
			publish(t, direct, numbered(1000)...)
			network.Thaw()
			// What is thrown away would come again when the ack wait ends. What the server has not got rid of
			// when a request is taken back it delivers again by itself.
			settled(t, direct)
			if got := len(p.got()); got != 1000 {
				t.Errorf("%d runs for 1000 messages", got)
			}
			r.stop()
		})
	}
}
