package main

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
)

// missing says what is not finished yet, in words for the case that it never will be. The
// databases and the brokers are asked, not the processes: everything that was produced has
// been settled by its consumer, and nothing waits in the outbox.
func (s *story) missing(ctx context.Context) ([]string, error) {
	h := s.house
	var all []string
	want := func(have, want int, what string) {
		if have < want {
			all = append(all, fmt.Sprintf("%s of %s %s", thousands(have), thousands(want), what))
		}
	}
	for _, log := range []struct{ role, topic, stream, what string }{
		{roleWorker, h.stage.paymentsTopic(), h.stage.paymentsStream(), "payment messages on %s settled"},
		{roleReceiver, h.stage.receiptsTopic(), h.stage.receiptsStream(), "receipts on %s settled"},
	} {
		records, err := h.records(ctx, log.topic)
		if err != nil {
			return nil, err
		}
		messages, err := h.messages(ctx, log.stream)
		if err != nil {
			return nil, err
		}
		want(s.tally.settledVia(log.role, viaKafka), records, fmt.Sprintf(log.what, "Kafka"))
		want(s.tally.settledVia(log.role, viaNATS), messages, fmt.Sprintf(log.what, "NATS"))
	}
	var booked, waiting, receipts int
	err := h.db.QueryRow(ctx, fmt.Sprintf(`
		select (select count(distinct payment) from %[1]s.bookings),
		       (select count(*) from %[2]s.outbox) + (select count(*) from %[2]s.outbox_waiting),
		       (select count(distinct payment) from %[3]s.receipts)`,
		h.stage.bank(), h.stage.bankSemel(), h.stage.receiver())).Scan(&booked, &waiting, &receipts)
	if err != nil {
		return nil, err
	}
	want(booked, s.Payments, "payments booked")
	want(receipts, s.Payments, "receipts counted")
	if waiting > 0 {
		all = append(all, thousands(waiting)+" events still in the outbox")
	}
	return all, nil
}

// records is how many records a topic has, by the ends of its partitions.
func (h *house) records(ctx context.Context, topic string) (n int, err error) {
	var ask []kafka.OffsetRequest
	for p := range partitions {
		ask = append(ask, kafka.LastOffsetOf(p))
	}
	answer, err := h.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: ask}})
	if err != nil {
		return 0, fmt.Errorf("ask Kafka where %s ends: %w", topic, err)
	}
	for _, p := range answer.Topics[topic] {
		if p.Error != nil {
			return 0, fmt.Errorf("ask Kafka where %s/%d ends: %w", topic, p.Partition, p.Error)
		}
		n += int(p.LastOffset)
	}
	return n, nil
}

// messages is how many messages a stream has.
func (h *house) messages(ctx context.Context, stream string) (int, error) {
	at, err := h.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("ask NATS where %s ends: %w", stream, err)
	}
	return int(at.CachedInfo().State.LastSeq), nil
}
