//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/integration/servers"
)

type natsBroker struct {
	t       *testing.T
	orders  orders
	dir     string
	process *child
	runs    int

	direct   jetstream.JetStream // past all proxies
	producer jetstream.JetStream
}

func startNATS(t *testing.T, dir string, groups []*group) *natsBroker {
	t.Helper()
	port := must(servers.FreePort())(t)
	b := &natsBroker{t: t, dir: dir, orders: orders{Role: "nats-server", Port: port, Store: filepath.Join(dir, "nats-store")}}
	t.Cleanup(func() {
		if b.process != nil {
			b.process.kill()
		}
	})
	check(t, b.start(t.Context()))
	for _, stream := range []jetstream.StreamConfig{
		{Name: natsStream, Subjects: []string{"soak.*"}},
		// Copies must be seen: the stream's own window would hide them.
		{Name: natsReceipts, Subjects: []string{receiptsOf("*")}, Duplicates: 100 * time.Millisecond},
	} {
		_ = must(b.direct.CreateStream(t.Context(), stream))(t)
	}
	// The durables are there from the beginning, so that their lag can be asked for.
	for _, g := range groups {
		for lane := range lanes {
			_ = must(b.direct.CreateOrUpdateConsumer(t.Context(), natsStream, laneConfig(g.name, lane)))(t)
		}
	}
	return b
}

func (b *natsBroker) name() string      { return "nats" }
func (b *natsBroker) addr() string      { return fmt.Sprintf("127.0.0.1:%d", b.orders.Port) }
func (b *natsBroker) brokers() []string { return nil }
func (b *natsBroker) logs() string      { return "" }

// start starts the server and waits until JetStream is there with all its streams.
func (b *natsBroker) start(ctx context.Context) error {
	b.runs++
	o := b.orders
	o.Name = fmt.Sprintf("nats-server-%d", b.runs)
	var err error
	if b.process, err = spawn(o, b.dir); err != nil {
		return err
	}
	if b.direct == nil {
		if b.direct, err = b.connect(b.addr()); err != nil {
			return err
		}
	}
	return until(ctx, func(ctx context.Context) error {
		_, err := b.direct.AccountInfo(ctx)
		return err
	})
}

func (b *natsBroker) connect(addr string) (jetstream.JetStream, error) {
	// Nothing is kept for later while the server is away: what was sent after it could arrive, and
	// what was sent before it be lost.
	conn, err := nats.Connect("nats://"+addr, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(50*time.Millisecond), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(2*time.Second))
	if err != nil {
		return nil, err
	}
	b.t.Cleanup(conn.Close)
	return jetstream.New(conn, jetstream.WithPublishAsyncTimeout(3*time.Second))
}

func (b *natsBroker) through(addr string) (err error) {
	b.producer, err = b.connect(addr)
	return err
}

func (b *natsBroker) produce(ctx context.Context, lane int, ms []message) ([]place, error) {
	acks := make([]jetstream.PubAckFuture, len(ms))
	for i, m := range ms {
		msg := nats.NewMsg(laneSubject(lane))
		msg.Data = m.body()
		if m.Kind != nameless {
			msg.Header.Set(idHeader, m.ID)
		}
		var err error
		if acks[i], err = b.producer.PublishMsgAsync(msg); err != nil {
			return nil, err
		}
	}
	places := make([]place, len(ms))
	for i, ack := range acks {
		select {
		case a := <-ack.Ok():
			places[i] = place{lane, int64(a.Sequence)}
		case err := <-ack.Err():
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return places, nil
}

func (b *natsBroker) restart(ctx context.Context, _ *world, down time.Duration) error {
	b.process.kill()
	pause(ctx, down)
	return b.start(ctx)
}

// reset deletes the durables; the next consumers make them anew, from the start of the stream. Nobody may
// be there meanwhile: the server removes a deleted durable's directory late, and takes that of its
// successor if one has been made by then.
func (b *natsBroker) reset(ctx context.Context, w *world, g *group) error {
	defer w.holdConsumers(g)()
	for lane := range lanes {
		err := until(ctx, func(ctx context.Context) error {
			err := b.direct.DeleteConsumer(ctx, natsStream, laneDurable(g.name, lane))
			if errors.Is(err, jetstream.ErrConsumerNotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forget does nothing: the server learns of a death from the connection, and delivers again when the
// ack wait has passed.
func (b *natsBroker) forget(context.Context, *group, string) error { return nil }

func (b *natsBroker) describe(ctx context.Context, g *group) string {
	lag, err := b.lag(ctx, g)
	return fmt.Sprintf("lag %d, %v", lag, err)
}

func (b *natsBroker) lag(ctx context.Context, g *group) (int, error) {
	lag := 0
	for lane := range lanes {
		c, err := b.direct.Consumer(ctx, natsStream, laneDurable(g.name, lane))
		if err != nil {
			return 0, err
		}
		info := c.CachedInfo()
		lag += int(info.NumPending) + info.NumAckPending
	}
	return lag, nil
}

func (b *natsBroker) receipts(ctx context.Context, g *group) (all []receipt, err error) {
	stream, err := b.direct.Stream(ctx, natsReceipts)
	if err != nil {
		return nil, err
	}
	end := stream.CachedInfo().State.LastSeq
	if end == 0 {
		return nil, nil
	}
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	it, err := c.Messages()
	if err != nil {
		return nil, err
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		at := fmt.Sprintf("%d %s", meta.Sequence.Stream, meta.Timestamp.Format("05.000"))
		if m.Subject() == g.receipts() {
			if all, err = addReceipt(all, m.Headers().Get("id"), m.Data(), at); err != nil {
				return nil, err
			}
		}
		if meta.Sequence.Stream == end {
			return all, nil
		}
	}
}
