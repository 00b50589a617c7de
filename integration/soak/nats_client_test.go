//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/natspub"
)

const (
	natsStream   = "SOAK"
	natsReceipts = "RECEIPTS"
	ackWait      = 2 * time.Second
)

func laneSubject(lane int) string { return fmt.Sprintf("soak.%d", lane) }
func laneDurable(group string, lane int) string {
	return fmt.Sprintf("%s-lane-%d", group, lane)
}

// serveNATS is a server that survives SIGKILL: what it has confirmed is on disk.
func (o orders) serveNATS(ctx context.Context) error {
	s, err := server.NewServer(&server.Options{
		ServerName: "soak", Host: "127.0.0.1", Port: o.Port, JetStream: true, StoreDir: o.Store, SyncAlways: true, NoSigs: true,
	})
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

type natsClient struct {
	o  orders
	js jetstream.JetStream
}

func newNATSClient(o orders) (natsClient, error) {
	conn, err := nats.Connect("nats://"+o.Addr, nats.Name(o.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(2*time.Second))
	if err != nil {
		return natsClient{}, err
	}
	js, err := jetstream.New(conn)
	return natsClient{o, js}, err
}

// consume works on all lanes. The ordered ones go one message at a time, over all processes.
func (c natsClient) consume(ctx context.Context, p dedup.Processor, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	errs := make([]error, c.o.Lanes)
	for lane := range c.o.Lanes {
		consumer, err := c.lane(lane, p, log)
		if err != nil {
			return err
		}
		running.Go(func() {
			defer cancel()
			errs[lane] = consumer.Run(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

func (c natsClient) lane(lane int, p dedup.Processor, log *slog.Logger) (*natssub.Consumer, error) {
	cfg := laneConfig(c.o.Group, lane)
	opts := []natssub.Option{natssub.WithPolicy(policy), natssub.WithLogger(log), natssub.WithAckLimit(3 * time.Second)}
	if c.o.Group == parking {
		opts = append(opts, natssub.WithOrderBy(orderOf))
	}
	if lane < sequenced && c.o.Group != parking {
		opts = append(opts, natssub.WithOrder())
	} else if c.o.Mode.batches() {
		opts = append(opts, natssub.WithBatch(25, 5*time.Millisecond))
	} else {
		opts = append(opts, natssub.WithConcurrency(4))
	}
	return natssub.New(c.js, natsStream, cfg, p, opts...)
}

func laneConfig(group string, lane int) jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable: laneDurable(group, lane), FilterSubject: laneSubject(lane), AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
	}
	if lane < sequenced {
		cfg.MaxAckPending = 1
	}
	return cfg
}

func (c natsClient) publisher() (outbox.Publisher, error) {
	return natspub.New(c.js, natspub.WithStream(natsReceipts), natspub.WithAckWait(3*time.Second))
}
