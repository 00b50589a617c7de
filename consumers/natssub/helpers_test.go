package natssub_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The client waits up to ten seconds for a flush on behalf of a subscription that was
		// drained while the connection was away, and nothing ends that wait earlier.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats.go.(*Conn).checkDrained"))
}

// broker is a server with JetStream that can be shut down and come back on the same port
// with the same files.
type broker struct {
	t   *testing.T
	srv *servers.NATS
	// files, when it is set, is where the server keeps its files from its next start on.
	files string
}

func startBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{t: t}
	b.srv = servertest.StartNATS(t, servers.WithNATSOptions(func(o *server.Options) {
		if b.files != "" {
			o.StoreDir = b.files
		}
	}))
	return b
}

func (b *broker) start() {
	b.t.Helper()
	if err := b.srv.Restart(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) stop() {
	b.t.Helper()
	if err := b.srv.Shutdown(); err != nil {
		b.t.Fatal(err)
	}
}

// connect returns a client that never stops trying.
func (b *broker) connect(opts ...nats.Option) jetstream.JetStream {
	b.t.Helper()
	nc, err := nats.Connect(b.srv.URL(), append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.t.Fatal(err)
	}
	return js
}

const (
	stream  = "ORDERS"
	durable = "billing"
)

func makeStream(t *testing.T, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func publish(t *testing.T, js jetstream.JetStream, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if _, err := js.Publish(t.Context(), "orders.new", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
}

func numbered(n int) []string {
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = fmt.Sprint(i + 1)
	}
	return bodies
}

// processor is a fake guard: what it answers is up to the test, and it remembers what it was
// asked.
type processor struct {
	process func(ctx context.Context, m dedup.Message) dedup.Result
	bury    func(ctx context.Context, m dedup.Message, reason error) dedup.Result

	mu     sync.Mutex
	calls  []dedup.Message
	buried []dedup.Message
	reason []error
}

func (p *processor) Process(ctx context.Context, m dedup.Message) dedup.Result {
	p.mu.Lock()
	p.calls = append(p.calls, m)
	p.mu.Unlock()
	if p.process == nil {
		return applied
	}
	return p.process(ctx, m)
}

func (p *processor) Bury(ctx context.Context, m dedup.Message, reason error) dedup.Result {
	p.mu.Lock()
	p.buried = append(p.buried, m)
	p.reason = append(p.reason, reason)
	p.mu.Unlock()
	if p.bury == nil {
		return dedup.Result{Outcome: dedup.Buried}
	}
	return p.bury(ctx, m, reason)
}

// got returns the bodies in the order in which they were processed.
func (p *processor) got() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var bodies []string
	for _, m := range p.calls {
		bodies = append(bodies, string(m.Body))
	}
	return bodies
}

func (p *processor) messages() []dedup.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]dedup.Message(nil), p.calls...)
}

func (p *processor) buriedCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.buried)
}

var applied = dedup.Result{Outcome: dedup.Applied}

func failed(fault store.Fault, text string) dedup.Result {
	return dedup.Result{Outcome: dedup.Failed, Fault: fault, Err: errors.New(text)}
}

// running is a Run in the background.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func start(t *testing.T, c *natssub.Consumer) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		r.wait()
	})
	return r
}

func (r *running) wait() error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(30 * time.Second):
		r.t.Fatal("Run does not return")
	}
	return r.err
}

// stop ends the run and demands that it ends cleanly.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	if err := r.wait(); err != nil {
		r.t.Fatalf("Run: %v", err)
	}
}

// consume makes and starts a consumer of the usual stream.
func consume(t *testing.T, js jetstream.JetStream, p dedup.Processor, opts ...natssub.Option) *running {
	t.Helper()
	return consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable}, p, opts...)
}

func consumeWith(t *testing.T, js jetstream.JetStream, cfg jetstream.ConsumerConfig, p dedup.Processor, opts ...natssub.Option) *running {
	t.Helper()
	c, err := natssub.New(js, stream, cfg, p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, c)
}

// info is what the server says of the durable, once it is there.
func info(t *testing.T, js jetstream.JetStream) *jetstream.ConsumerInfo {
	t.Helper()
	var c jetstream.Consumer
	eventually(t, "the durable", func() (ok bool) {
		var err error
		c, err = js.Consumer(t.Context(), stream, durable)
		return err == nil
	})
	return c.CachedInfo()
}

// eventually polls what cannot be waited for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(60 * time.Second); time.Now().Before(limit); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("still waiting: %s", what)
}

// settled waits until the server has nothing left to deliver or to hear of.
func settled(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything acknowledged", func() bool {
		return info(t, js).AckFloor.Stream == s.CachedInfo().State.LastSeq
	})
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(15 * time.Second):
		t.Fatal("nothing was sent")
		panic("unreachable")
	}
}

var quick = natssub.WithPolicy(consumers.Policy{MaxAttempts: 3, MinDelay: 10 * time.Millisecond, MaxDelay: 20 * time.Millisecond})
