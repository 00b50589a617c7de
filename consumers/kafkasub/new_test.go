package kafkasub_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
)

// plain can do nothing but process.
type plain struct{}

func (plain) Process(context.Context, dedup.Message) dedup.Result { return applied }

func TestNewSaysWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	good := kafka.ConsumerGroupConfig{ID: "g", Brokers: []string{"127.0.0.1:1"}, Topics: []string{"t"}}
	type options = []kafkasub.Option
	for _, c := range []struct {
		name   string
		change func(*kafka.ConsumerGroupConfig)
		p      dedup.Processor
		opts   options
		want   string // empty: no error
	}{
		{name: "all right", p: newFake(always)},
		{name: "no processor", want: "processor is nil: pass the guard"},
		{name: "no group id", p: newFake(always), change: func(c *kafka.ConsumerGroupConfig) { c.ID = "" }, want: "set ID to a name that stays the same"},
		{name: "no brokers", p: newFake(always), change: func(c *kafka.ConsumerGroupConfig) { c.Brokers = nil }, want: "set Brokers to at least one host:port"},
		{name: "no topics", p: newFake(always), change: func(c *kafka.ConsumerGroupConfig) { c.Topics = nil }, want: "set Topics to at least one"},
		{name: "empty topic", p: newFake(always), change: func(c *kafka.ConsumerGroupConfig) { c.Topics = []string{""} }, want: "has no name"},
		{name: "topic twice", p: newFake(always), change: func(c *kafka.ConsumerGroupConfig) { c.Topics = []string{"t", "t"} }, want: `"t" is listed twice`},
		{name: "last offset", p: newFake(always), change: func(c *kafka.ConsumerGroupConfig) { c.StartOffset = kafka.LastOffset }, want: "misses messages: use FirstOffset, or pass AllowLastOffset"},
		{name: "last offset allowed", p: newFake(always), change: func(c *kafka.ConsumerGroupConfig) { c.StartOffset = kafka.LastOffset }, opts: options{kafkasub.AllowLastOffset()}},
		{name: "some other offset", p: newFake(always), change: func(c *kafka.ConsumerGroupConfig) { c.StartOffset = 7 }, want: "StartOffset"},
		{name: "cannot bury", p: plain{}, want: "pass WithoutDeadLetters"},
		{name: "cannot bury and need not", p: plain{}, opts: options{kafkasub.WithoutDeadLetters()}},
		{name: "batch of a processor without", p: newFake(always), opts: options{kafkasub.WithBatch(10, 0)}, want: "pass a dedup.BatchProcessor"},
		{name: "batch", p: batch{newFake(always)}, opts: options{kafkasub.WithBatch(10, time.Second)}},
		{name: "negative batch", p: batch{newFake(always)}, opts: options{kafkasub.WithBatch(-1, 0)}, want: "at least 1"},
		{name: "empty batch", p: batch{newFake(always)}, opts: options{kafkasub.WithBatch(0, 0)}, want: "at least 1"},
		{name: "negative linger", p: batch{newFake(always)}, opts: options{kafkasub.WithBatch(1, -1)}, want: "linger"},
		{name: "lanes", p: newFake(always), opts: options{kafkasub.WithConcurrency(0)}, want: "WithConcurrency: 0: it must be at least 1"},
		{name: "order without lanes", p: newFake(always), opts: options{kafkasub.WithOrderBy(func(m dedup.Message) []byte { return m.Key })}, want: "leave one out or add the other"},
		{name: "order by nothing", p: newFake(always), opts: options{kafkasub.WithConcurrency(2), kafkasub.WithOrderBy(nil)}, want: "WithOrderBy: the function is nil"},
		{name: "prefetch below the lanes", p: newFake(always), opts: options{kafkasub.WithConcurrency(20), kafkasub.WithPrefetch(19)}, want: "at least 20, which is a message"},
		{name: "prefetch below the batches", p: batch{newFake(always)}, opts: options{kafkasub.WithConcurrency(2), kafkasub.WithBatch(60, 0), kafkasub.WithPrefetch(100)}, want: "at least 120"},
		{name: "many batches", p: batch{newFake(always)}, opts: options{kafkasub.WithConcurrency(10), kafkasub.WithBatch(500, 0)}},
		{name: "positions and lanes", p: &loser{fake: newFake(always)}, opts: options{kafkasub.WithConcurrency(2)}, want: "needs its messages in the order of the log"},
		{name: "positions", p: &loser{fake: newFake(always)}, opts: options{kafkasub.WithNewLog(kafkasub.NewLogFromEnd)}},
		{name: "some other new log", p: &loser{fake: newFake(always)}, opts: options{kafkasub.WithNewLog(9)}, want: "WithNewLog: 9 is no policy"},
		{name: "new log without positions", p: newFake(always), opts: options{kafkasub.WithNewLog(kafkasub.StopAtNewLog)}, want: "keeps no positions"},
		{name: "keep of a processor that does not tell", p: newFake(always), opts: options{kafkasub.RequireKeep()}, want: "RequireKeep: *kafkasub_test.fake does not tell how long it keeps marks"},
		{name: "prefetch", p: newFake(always), opts: options{kafkasub.WithPrefetch(0)}, want: "WithPrefetch"},
		{name: "policy", p: newFake(always), opts: options{kafkasub.WithPolicy(consumers.Policy{})}, want: "WithPolicy: MaxAttempts"},
		{name: "commit interval", p: newFake(always), opts: options{kafkasub.WithCommitInterval(0)}, want: "WithCommitInterval"},
		{name: "start limit", p: newFake(always), opts: options{kafkasub.WithStartLimit(0)}, want: "WithStartLimit"},
		{name: "silence", p: newFake(always), opts: options{kafkasub.WithSilence(0)}, want: "WithSilence"},
		{name: "fetch", p: newFake(always), opts: options{kafkasub.WithFetch(2, 1, 0)}, want: "WithFetch"},
		{name: "least above the most by default", p: newFake(always), opts: options{kafkasub.WithFetch(2_000_000, 0, 0)}, want: "WithFetch"},
		{name: "negative fetch", p: newFake(always), opts: options{kafkasub.WithFetch(-1, 0, 0)}, want: "WithFetch"},
		{name: "logger", p: newFake(always), opts: options{kafkasub.WithLogger(nil)}, want: "leave the option out"},
		{name: "nil option", p: newFake(always), opts: options{nil}},
		{name: "drain that does not fit", p: newFake(always), opts: options{kafkasub.WithDrain(25 * time.Second)}, want: "between 0 and 24s"},
		{name: "longest drain", p: newFake(always), opts: options{kafkasub.WithDrain(24 * time.Second)}},
		{name: "negative drain", p: newFake(always), opts: options{kafkasub.WithDrain(-1)}, want: "WithDrain"},
		{name: "session too short to give up in", p: newFake(always), change: func(c *kafka.ConsumerGroupConfig) { c.SessionTimeout = 5 * time.Second }, want: "leave no time to give a partition up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := good
			if c.change != nil {
				c.change(&cfg)
			}
			_, err := kafkasub.New(cfg, c.p, c.opts...)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("New = %v, want no error", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("New = %v, want an error with %q", err, c.want)
			case err != nil && !strings.HasPrefix(err.Error(), "kafkasub: new consumer: "):
				t.Errorf("error %q does not say where it comes from", err)
			}
		})
	}
}

func TestRunIsForOneTime(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, kafka.ConsumerGroupConfig{
		ID: "g", Brokers: []string{"127.0.0.1:1"}, Topics: []string{"t"},
	}, newFake(always))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Run(ctx); err != nil {
		t.Errorf("Run with a context that has ended = %v, want nil", err)
	}
	if err := c.Run(ctx); err == nil || !strings.Contains(err.Error(), "runs once") {
		t.Errorf("second Run = %v, want an error", err)
	}
}
