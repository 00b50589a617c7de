package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/segmentio/kafka-go"
)

// paymentID is the header that says which payment a message is about. Whoever produces a
// payment twice writes the same value twice: it is what the guard goes by.
const paymentID = "payment-id"

// producer sends payments, some of them again.
type producer struct {
	stage stage
	kafka *kafka.Writer
	js    jetstream.JetStream
}

func newProducer(s stage, js jetstream.JetStream) *producer {
	return &producer{stage: s, js: js, kafka: &kafka.Writer{
		Addr:         kafka.TCP(s.Kafka...),
		Topic:        s.paymentsTopic(),
		RequiredAcks: kafka.RequireAll,
		BatchSize:    500,
		BatchTimeout: time.Millisecond,
		Balancer:     kafka.BalancerFunc(partition),
		Transport:    &kafka.Transport{},
	}}
}

// partition keeps the payments of an account together, but sends twins elsewhere.
func partition(m kafka.Message, partitions ...int) int {
	h := fnv.New32a()
	h.Write(m.Key)
	i := int(h.Sum32() % uint32(len(partitions)))
	if twin, _ := m.WriterData.(bool); twin {
		i = (i + 1) % len(partitions)
	}
	return partitions[i]
}

// send produces a wave over both brokers at the same time.
func (p *producer) send(ctx context.Context, wave []delivery) error {
	var toKafka, toNATS []delivery
	for _, d := range wave {
		if d.via == viaKafka {
			toKafka = append(toKafka, d)
		} else {
			toNATS = append(toNATS, d)
		}
	}
	sent := make(chan error, 1)
	go func() { sent <- p.sendKafka(ctx, toKafka) }()
	return errors.Join(p.sendNATS(ctx, toNATS), <-sent)
}

func (p *producer) sendKafka(ctx context.Context, ds []delivery) error {
	records := make([]kafka.Message, len(ds))
	for i, d := range ds {
		body, err := json.Marshal(d.payment)
		if err != nil {
			return err
		}
		records[i] = kafka.Message{
			Key:        []byte(strconv.Itoa(d.payment.Account)),
			Value:      body,
			Headers:    []kafka.Header{{Key: paymentID, Value: []byte(d.payment.ID)}},
			WriterData: d.twin,
		}
	}
	if err := p.kafka.WriteMessages(ctx, records...); err != nil {
		return fmt.Errorf("produce to Kafka: %w", err)
	}
	return nil
}

func (p *producer) sendNATS(ctx context.Context, ds []delivery) error {
	acks := make([]jetstream.PubAckFuture, len(ds))
	for i, d := range ds {
		body, err := json.Marshal(d.payment)
		if err != nil {
			return err
		}
		// No Nats-Msg-Id: the server's window would hide the copies for two minutes, and what
		// comes later it lets through.
		acks[i], err = p.js.PublishMsgAsync(&nats.Msg{
			Subject: p.stage.paymentsSubject(),
			Header:  nats.Header{paymentID: {d.payment.ID}},
			Data:    body,
		}, jetstream.WithStallWait(time.Minute))
		if err != nil {
			return fmt.Errorf("produce to NATS: %w", err)
		}
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return fmt.Errorf("produce to NATS: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *producer) close() error {
	err := p.kafka.Close()
	p.kafka.Transport.(*kafka.Transport).CloseIdleConnections()
	return err
}
