package natssub_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// acks are the acknowledgements that reach the server, by message, and how many of them ask for a
// confirmation.
type acks struct {
	mu     sync.Mutex
	of     map[string]int
	asking int
}

func watchAcks(t *testing.T, nc *nats.Conn) *acks {
	t.Helper()
	a := &acks{of: map[string]int{}}
	_, err := nc.Subscribe("$JS.ACK.>", func(m *nats.Msg) {
		if !bytes.Equal(m.Data, []byte("+ACK")) {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.of[m.Subject]++
		if m.Reply != "" {
			a.asking++
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *acks) count() (messages, asking int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.of), a.asking
}

func TestOneConfirmationStandsForABatch(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	publish(t, js, numbered(100)...)
	seen := watchAcks(t, b.connect().Conn())
	r := consume(t, js, &batches{}, natssub.WithBatch(10, time.Hour), natssub.WithPrefetch(20))
	settled(t, js)
	r.stop()
	eventually(t, "every message is acknowledged", func() bool { messages, _ := seen.count(); return messages == 100 })
	if _, asking := seen.count(); asking != 10 {
		t.Errorf("%d confirmations were asked for, want one for each of 10 batches", asking)
	}
	for subject, n := range seen.of {
		if n != 1 {
			t.Errorf("%s was acknowledged %d times", subject, n)
		}
	}
}

// What is settled before a failure is acknowledged although the batch is not at its end.
func TestWhatIsSettledBeforeAFailureIsAcknowledged(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(10)...)
	goOn := make(chan struct{})
	p := &batches{processor: processor{process: func(ctx context.Context, m dedup.Message) dedup.Result {
		if m.Position.Offset == 7 {
			select {
			case <-goOn:
			default:
				return failed(store.FaultOutage, "not yet")
			}
		}
		return applied
	}}}
	r := consume(t, js, p, natssub.WithBatch(10, time.Hour))
	eventually(t, "those before it are acknowledged", func() bool { return info(t, js).AckFloor.Stream == 6 })
	close(goOn)
	settled(t, js)
	r.stop()
}

// One acknowledgement in the middle of a batch never reaches the server, which confirms the last one.
func TestAnAcknowledgementLostBehindAConfirmationIsARedelivery(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	publish(t, js, numbered(10)...)
	p := &batches{}
	lossy := b.connect(nats.SetCustomDialer(&losing{text: fmt.Sprintf("$JS.ACK.%s.%s.1.5.", stream, durable)}))
	r := consumeWith(t, lossy, jetstream.ConsumerConfig{Durable: durable, AckWait: shortWait}, p, natssub.WithBatch(10, 300*time.Millisecond))
	settled(t, js)
	r.stop()
	runs := map[int64]int{}
	for _, m := range p.messages() {
		runs[m.Position.Offset]++
	}
	for offset := int64(1); offset <= 10; offset++ {
		want := 1
		if offset == 5 {
			want = 2
		}
		if runs[offset] != want {
			t.Errorf("message %d was delivered %d times, want %d", offset, runs[offset], want)
		}
	}
}

// losing dials connections on which the server does not understand what begins with a text.
type losing struct {
	net.Dialer
	text string
}

func (l *losing) Dial(network, address string) (net.Conn, error) {
	c, err := l.Dialer.Dial(network, address)
	return &losingConn{c, []byte(l.text)}, err
}

type losingConn struct {
	net.Conn
	text []byte
}

func (c *losingConn) Write(b []byte) (int, error) {
	return c.Conn.Write(bytes.ReplaceAll(b, c.text, bytes.Repeat([]byte("x"), len(c.text))))
}
