package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/outbox/natspub"
	"github.com/semel-dev/semel/outbox/standardwebhooks"
	"github.com/semel-dev/semel/outbox/webhookpub"
	"github.com/semel-dev/semel/store/pgstore"
)

// relay carries the bank's events out of its database, to Kafka, to NATS and to webhooks. It
// is killed with SIGKILL several times in this story.
func relay(ctx context.Context, s stage, _ *reporter) (err error) {
	pool, err := s.pool(ctx, s.bank(), 8)
	if err != nil {
		return err
	}
	defer pool.Close()
	semel, err := pgstore.New(pool, pgstore.WithSchema(s.bankSemel()))
	if err != nil {
		return err
	}

	toKafka, err := kafkapub.New(kafkapub.NewWriter(s.Kafka...))
	if err != nil {
		return err
	}
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, toKafka.Close(limited))
	}()
	conn, err := nats.Connect(s.NATS, nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	toNATS, err := natspub.New(js)
	if err != nil {
		return err
	}
	toWebhooks, err := newWebhooks(s)
	if err != nil {
		return err
	}
	defer toWebhooks.Close()

	carrier, err := outbox.NewRelay(semel, map[string]outbox.Publisher{
		viaKafka: toKafka, viaNATS: toNATS, viaWebhook: toWebhooks,
	},
		// All of these are short for the story's sake, see kafkaGroup. The lease is how long the
		// slots of a relay that was killed stay with it.
		outbox.WithLease(2*time.Second), outbox.WithPoll(100*time.Millisecond),
		outbox.WithProbe(50*time.Millisecond, time.Second),
		outbox.WithLogger(logger()))
	if err != nil {
		return err
	}
	return carrier.Run(ctx)
}

// endpointOf is where the owner of an account wants its receipts: one of sixteen endpoints, of
// which each may be down while the others are up.
func endpointOf(account int) string { return "shop-" + strconv.Itoa(account%16) }

// newWebhooks sends to the receiver, which is on this machine and speaks no TLS. Neither would
// be allowed without saying so.
func newWebhooks(s stage) (*webhookpub.Publisher, error) {
	key, err := standardwebhooks.ParseSigningKey(s.Secret)
	if err != nil {
		return nil, err
	}
	address, err := netip.ParseAddrPort(s.Webhook)
	if err != nil {
		return nil, err
	}
	endpoints := func(_ context.Context, topic string) (webhookpub.Endpoint, error) {
		return webhookpub.Endpoint{
			URL:     "http://" + s.Webhook + "/" + topic,
			Secrets: []webhookpub.Secret{{Key: key}},
		}, nil
	}
	return webhookpub.New(webhookpub.EndpointsFunc(endpoints),
		webhookpub.WithHTTP(), webhookpub.WithPorts(address.Port()),
		webhookpub.WithAllowPrivate(netip.PrefixFrom(address.Addr(), 32)),
		// Short, as the receiver likes to hang. The standard asks for 15 to 30 seconds.
		webhookpub.WithTimeout(500*time.Millisecond),
	)
}
