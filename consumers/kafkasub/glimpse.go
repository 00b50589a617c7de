package kafkasub

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/semel-dev/semel/dedup"
)

// glimpse is what a log has at an offset.
type glimpse struct {
	found  bool
	m      dedup.Message // the first record that is data, at the offset or behind it
	marker bool          // at the offset itself is a transaction marker
}

// glimpse looks for a record from the offset on, before end. Records of open transactions count.
func (l *lookup) glimpse(ctx context.Context, at place, offset, end int64) (g glimpse, err error) {
	for next := offset; next < end && !g.found; {
		from := next
		err := l.batches(ctx, at, from, func(batch protocol.RecordReader) error {
			if b, ok := batch.(*protocol.ControlBatch); ok {
				g.marker = g.marker || b.BaseOffset == offset
				next = max(next, b.BaseOffset+1)
				return nil
			}
			for !g.found {
				record, err := batch.ReadRecord()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if next = max(next, record.Offset+1); record.Offset < offset {
					continue
				}
				if g.m, err = recordMessage(at, record); err != nil {
					return err
				}
				g.found = true
			}
			return nil
		})
		if err != nil || next == from {
			return g, err
		}
	}
	return g, nil
}

// recordMessage is the message as a reader would have delivered it, but for its headers.
func recordMessage(at place, r *protocol.Record) (m dedup.Message, err error) {
	read := kafka.Message{Topic: at.topic, Partition: at.partition, Offset: r.Offset, Time: recordTime(r)}
	if read.Key, err = protocol.ReadAll(r.Key); err != nil {
		return m, err
	}
	if read.Value, err = protocol.ReadAll(r.Value); err != nil {
		return m, err
	}
	return message(read), nil
}

// recordTime is the time of the record as a reader would have delivered it: none where the log keeps -1.
func recordTime(r *protocol.Record) (t time.Time) {
	if r.Time.After(time.UnixMilli(0)) {
		t = r.Time.UTC()
	}
	return t
}
