package kafkasub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/semel-dev/semel/dedup"
)

// lookup asks the brokers what neither the group nor a reader can tell.
type lookup struct {
	topics  []string
	timeout time.Duration
	dialer  *kafka.Dialer
	sockets *sockets      // to the leaders
	others  *sockets      // to anyone
	anyone  *line         // of the group's brokers that answers, for what each of them knows
	finding chan struct{} // held by whoever asks for the leaders

	mu      sync.Mutex
	leaders map[place]*leader
	lines   map[kafka.Broker]*leader
}

func newLookup(cfg kafka.ConsumerGroupConfig) *lookup {
	l := &lookup{
		topics: cfg.Topics, timeout: cfg.Timeout, dialer: cfg.Dialer, sockets: newSockets(), others: newSockets(),
		finding: make(chan struct{}, 1),
	}
	l.others.detour = &detour{listed: cfg.Brokers}
	l.anyone = l.newLine(l.others, cfg.Brokers...)
	return l
}

func (l *lookup) close() {
	l.sockets.cut()
	l.others.cut()
	l.anyone.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, leader := range l.lines {
		leader.close()
	}
}

// checkTopics returns an error unless every topic is there. It never makes one, which the group
// protocol does by the way on brokers with automatic creation.
func (l *lookup) checkTopics(ctx context.Context) error {
	return l.anyone.ask(ctx, l.findTopics)
}

func (l *lookup) findTopics(ctx context.Context, client *kafka.Client) error {
	res, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: l.topics})
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the broker has closed the connection, as it does when it wants other credentials, TLS or none: %w", err)
	}
	if err != nil {
		return err
	}
	for _, t := range res.Topics {
		switch {
		case errors.Is(t.Error, kafka.UnknownTopicOrPartition):
			return fmt.Errorf("topic %q does not exist: create it, or correct the name: %w", t.Name, t.Error)
		case t.Error != nil:
			return fmt.Errorf("topic %q: %w", t.Name, t.Error)
		}
	}
	return nil
}

// bounds returns the offset of the first record in the log and the one behind the last, which
// depends on the isolation: behind the last one, or before the first open transaction.
func (l *lookup) bounds(ctx context.Context, at place, isolation kafka.IsolationLevel) (first, end int64, err error) {
	err = l.askLeader(ctx, at, func(ctx context.Context, client *kafka.Client) error {
		res, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
			Topics: map[string][]kafka.OffsetRequest{
				at.topic: {kafka.FirstOffsetOf(at.partition), kafka.LastOffsetOf(at.partition)},
			},
			IsolationLevel: isolation,
		})
		if err != nil {
			return err
		}
		for _, p := range res.Topics[at.topic] {
			if p.Partition == at.partition {
				first, end = p.FirstOffset, p.LastOffset
				return p.Error
			}
		}
		return kafka.UnknownTopicOrPartition
	})
	return first, end, err
}

// isControl tells whether the record at the offset is a transaction marker. What kafka-go's Reader
// delivers cannot say it; the attributes of the batch that holds the record can. A record that
// has meanwhile been removed is taken for data.
func (l *lookup) isControl(ctx context.Context, at place, offset int64) (control bool, err error) {
	err = l.batches(ctx, at, offset, func(batch protocol.RecordReader) error {
		b, ok := batch.(*protocol.ControlBatch)
		control = control || ok && b.BaseOffset == offset
		return nil
	})
	return control, err
}

// isSame tells whether the log still has the record that was read from it. It is taken for the
// same as long as nothing speaks against it: when it has been removed, or when neither has a time.
func (l *lookup) isSame(ctx context.Context, at place, read dedup.Position) (same bool, err error) {
	same = true
	if read.Time.IsZero() {
		return same, nil // nothing has been read yet
	}
	err = l.batches(ctx, at, read.Offset, func(batch protocol.RecordReader) error {
		for {
			record, err := batch.ReadRecord()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if record.Offset == read.Offset {
				same = positionTime(recordTime(record)).Equal(read.Time)
			}
		}
	})
	return same, err
}

// batches calls f with the batch that holds the offset and perhaps others. It makes no call if there is
// nothing at the offset or behind it.
func (l *lookup) batches(ctx context.Context, at place, offset int64, f func(protocol.RecordReader) error) error {
	return l.askLeader(ctx, at, func(ctx context.Context, client *kafka.Client) error {
		// The smallest sizes: a broker always returns the first batch whole.
		res, err := client.Fetch(ctx, &kafka.FetchRequest{
			Topic: at.topic, Partition: at.partition, Offset: offset,
			MinBytes: 1, MaxBytes: 1, MaxWait: l.timeout / 2,
		})
		if err == nil {
			err = res.Error
		}
		if errors.Is(err, kafka.OffsetOutOfRange) {
			return nil
		}
		if err != nil {
			return err
		}
		stream, ok := res.Records.(*protocol.RecordStream)
		if !ok {
			return nil
		}
		for _, batch := range stream.Records {
			if err := f(batch); err != nil {
				return err
			}
		}
		return nil
	})
}
