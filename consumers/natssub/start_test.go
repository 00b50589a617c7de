package natssub_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

func TestNewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	good := jetstream.ConsumerConfig{Durable: durable}
	with := func(change func(*jetstream.ConsumerConfig)) jetstream.ConsumerConfig {
		cfg := good
		change(&cfg)
		return cfg
	}
	for _, tt := range []struct {
		want   string
		js     jetstream.JetStream
		stream string
		cfg    jetstream.ConsumerConfig
		p      dedup.Processor
		opts   []natssub.Option
	}{
		{"js is nil", nil, stream, good, &processor{}, nil},
		{"stream's name is empty", js, "", good, &processor{}, nil},
		{"processor is nil", js, stream, good, nil, nil},
		{"cannot bury", js, stream, good, plain{}, nil},
		{"position fence", js, stream, good, &fenced{yes: true}, nil},
		{"ephemeral", js, stream, with(func(c *jetstream.ConsumerConfig) { c.Durable, c.Name = "", "x" }), &processor{}, nil},
		{"differ", js, stream, with(func(c *jetstream.ConsumerConfig) { c.Name = "x" }), &processor{}, nil},
		{"pull consumer", js, stream, with(func(c *jetstream.ConsumerConfig) { c.DeliverSubject = "x" }), &processor{}, nil},
		{"AckPolicy is none", js, stream, with(func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy }), &processor{}, nil},
		{"AckPolicy is AckAll", js, stream, with(func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy }), &processor{}, nil},
		{"PriorityGroups", js, stream, with(func(c *jetstream.ConsumerConfig) { c.PriorityGroups = []string{"a"} }), &processor{}, nil},
		{"MaxDeliver is 10", js, stream, with(func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 10 }), &processor{}, nil},
		{"MaxRequestExpires", js, stream, with(func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = time.Millisecond }), &processor{}, nil},
		{"WithConcurrency(0)", js, stream, good, &processor{}, []natssub.Option{natssub.WithConcurrency(0)}},
		{"WithConcurrency(-1)", js, stream, good, &processor{}, []natssub.Option{natssub.WithConcurrency(-1)}},
		{"WithPrefetch(-1)", js, stream, good, &processor{}, []natssub.Option{natssub.WithPrefetch(-1)}},
		{"option is nil", js, stream, good, &processor{}, []natssub.Option{nil}},
		{"exclude each other", js, stream, good, &processor{}, []natssub.Option{natssub.WithConcurrency(2), natssub.WithOrder()}},
		{"exclude each other", js, stream, good, &processor{}, []natssub.Option{natssub.WithOrderBy(byKey), natssub.WithOrder()}},
		{"WithOrderBy(nil)", js, stream, good, &processor{}, []natssub.Option{natssub.WithOrderBy(nil)}},
		{"dedup.BatchProcessor", js, stream, good, &processor{}, []natssub.Option{natssub.WithBatch(2, 0)}},
		{"WithBatch(0", js, stream, good, &batches{}, []natssub.Option{natssub.WithBatch(0, 0)}},
		{"linger", js, stream, good, &batches{}, []natssub.Option{natssub.WithBatch(2, -1)}},
		{"WithPrefetch(9)", js, stream, good, &batches{}, []natssub.Option{natssub.WithBatch(5, 0), natssub.WithPrefetch(9)}},
		{"WithPolicy", js, stream, good, &processor{}, []natssub.Option{natssub.WithPolicy(consumers.Policy{})}},
		{"WithDrain", js, stream, good, &processor{}, []natssub.Option{natssub.WithDrain(-1)}},
		{"WithAckLimit", js, stream, good, &processor{}, []natssub.Option{natssub.WithAckLimit(0)}},
		{"WithLogger", js, stream, good, &processor{}, []natssub.Option{natssub.WithLogger(nil)}},
	} {
		c, err := natssub.New(tt.js, tt.stream, tt.cfg, tt.p, tt.opts...)
		if err == nil || c != nil {
			t.Errorf("%s: accepted", tt.want)
			continue
		}
		if !strings.HasPrefix(err.Error(), "natssub: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error does not say so: %v", tt.want, err)
		}
	}
	if _, err := natssub.Bind(js, stream, "", &processor{}); err == nil {
		t.Error("Bind to a durable without a name was accepted")
	}
}

// fenced is a processor that may have a position fence.
type fenced struct {
	processor
	yes bool
}

func (f *fenced) Fenced() bool { return f.yes }

func (f *fenced) Applied(context.Context, string, int) (store.Applied, error) {
	panic("asked without a fence")
}

func (f *fenced) RestartFence(context.Context, string, int, store.Applied, int64) (store.Applied, error) {
	panic("asked without a fence")
}

func TestAProcessorThatCouldHaveAFenceAndHasNoneIsTaken(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	r := consume(t, js, &fenced{})
	settled(t, js)
	r.stop()
}

// checked is a processor that is not ready.
type checked struct {
	processor
	err error
}

func (p *checked) Check(context.Context) error { return p.err }

func TestRunSaysWhyItCannotStart(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	for name, change := range map[string]func(*jetstream.ConsumerConfig){
		"none":      func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy },
		"deliver":   func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 3 },
		"ephemeral": func(c *jetstream.ConsumerConfig) { c.Durable, c.Name = "", "ephemeral" },
		"new":       func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverNewPolicy },
	} {
		cfg := jetstream.ConsumerConfig{Durable: name}
		change(&cfg)
		if _, err := js.CreateConsumer(t.Context(), stream, cfg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.CreatePushConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: "push", DeliverSubject: "there"}); err != nil {
		t.Fatal(err)
	}
	ordered, err := js.OrderedConsumer(t.Context(), stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	unreachable := unreachableServer(t)
	checkErr := errors.New("tables are missing")

	bind := func(js jetstream.JetStream, stream, durable string, p dedup.Processor) *natssub.Consumer {
		c, err := natssub.Bind(js, stream, durable, p)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	create := func(stream, durable string) *natssub.Consumer {
		c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable}, &processor{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, tt := range []struct {
		want string
		is   error
		c    *natssub.Consumer
	}{
		{"no such stream", jetstream.ErrStreamNotFound, create("NONE", durable)},
		{"no such stream", jetstream.ErrStreamNotFound, bind(js, "NONE", durable, &processor{})},
		{"no such durable", jetstream.ErrConsumerNotFound, bind(js, stream, "nobody", &processor{})},
		{"AckPolicy is none", nil, bind(js, stream, "none", &processor{})},
		{"MaxDeliver is 3", nil, bind(js, stream, "deliver", &processor{})},
		{"ephemeral", nil, bind(js, stream, "ephemeral", &processor{})},
		{"ephemeral", nil, bind(js, stream, ordered.CachedInfo().Name, &processor{})},
		{"pull consumer", jetstream.ErrNotPullConsumer, bind(js, stream, "push", &processor{})},
		{"cannot be changed", jetstream.ErrConsumerCreate, create(stream, "new")},
		{"is the server there", nil, bind(unreachable, stream, durable, &processor{})},
		{"check", checkErr, bind(js, stream, durable, &checked{err: checkErr})},
	} {
		err := tt.c.Run(t.Context())
		if err == nil {
			t.Errorf("%s: it ran", tt.want)
			continue
		}
		if !strings.HasPrefix(err.Error(), "natssub: ") || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: the error does not say so: %v", tt.want, err)
		}
	}
}

// unreachableServer is a client that has never had a connection and goes on trying.
func unreachableServer(t *testing.T) jetstream.JetStream {
	t.Helper()
	b := startBroker(t)
	url := b.srv.URL()
	b.stop()
	nc, err := nats.Connect(url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestBindWorksWithADurableThatIsThere(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	if _, err := js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: durable, Description: "as it was"}); err != nil {
		t.Fatal(err)
	}
	p := &processor{}
	c, err := natssub.Bind(js, stream, durable, p)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, c)
	settled(t, js)
	r.stop()
	if got := info(t, js).Config.Description; got != "as it was" {
		t.Errorf("the durable was changed: its description is %q", got)
	}
}

func TestRunMayBeCalledAgainButNotTwiceAtATime(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	c, err := natssub.New(js, stream, jetstream.ConsumerConfig{Durable: durable}, &processor{})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, c)
	settled(t, js)
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "running") {
		t.Errorf("a second Run at the same time: %v", err)
	}
	r.stop()
	publish(t, js, "b")
	r = start(t, c)
	settled(t, js)
	r.stop()
}

func TestTheServersLimitsAreKept(t *testing.T) {
	t.Parallel()
	for _, cfg := range []jetstream.ConsumerConfig{
		{MaxRequestBatch: 2},
		{MaxAckPending: 3},
		{MaxRequestExpires: time.Second},
		{MaxWaiting: 1},
	} {
		js := startBroker(t).connect()
		makeStream(t, js)
		publish(t, js, numbered(50)...)
		cfg.Durable = durable
		p := &processor{}
		r := consumeWith(t, js, cfg, p)
		settled(t, js)
		r.stop()
		if n := len(p.got()); n != 50 {
			t.Errorf("%d messages processed, want 50", n)
		}
	}
}

func TestNoMoreMessagesAreFetchedThanTheHandHolds(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(100)...)
	running, finish := make(chan struct{}, 100), make(chan struct{})
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		running <- struct{}{}
		<-finish
		return applied
	}}
	r := consume(t, js, p, natssub.WithConcurrency(2), natssub.WithPrefetch(6))
	receive(t, running)
	receive(t, running)
	eventually(t, "the hand full", func() bool { return info(t, js).Delivered.Consumer >= 6 })
	if i := info(t, js); i.Delivered.Consumer != 6 {
		t.Errorf("%d messages fetched, want 6", i.Delivered.Consumer)
	}
	close(finish)
	settled(t, js)
	r.stop()
}
