package kafkasub

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// lookEvery is the least time before holes between records are looked into again after one was
// harmless. A compacted topic has them everywhere.
const lookEvery = 10 * time.Second

// read delivers records until its reader has to be replaced, and returns the position.
//
// A reader is replaced whenever it has something to complain of. It would go on by itself, and most
// of the time rightly; but it asks no questions, and would read on in the middle of a log that was
// made again while it could not reach the broker.
func (f *feed) read(ctx context.Context, position int64) int64 {
	usable, replace := context.WithCancelCause(ctx)
	defer replace(nil)
	s := newSockets()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: f.look.leaderFirst(f.at, f.group.Brokers), Dialer: s.dialer(f.group.Dialer),
		Topic: f.at.topic, Partition: f.at.partition,
		QueueCapacity: f.conf.ahead(), ReadLagInterval: -1,
		MinBytes: f.conf.minBytes, MaxBytes: f.conf.maxBytes, MaxWait: f.conf.maxWait,
		// Records of an open transaction are not read. Those of an aborted one are, because
		// kafka-go does not filter them.
		IsolationLevel: kafka.ReadCommitted,
		MaxAttempts:    1, OffsetOutOfRangeError: true,
		ErrorLogger: kafka.LoggerFunc(func(format string, args ...any) {
			if s.ctx.Err() != nil {
				return // what it complains of is that its sockets were cut
			}
			f.group.ErrorLogger.Printf(format, args...)
			replace(fmt.Errorf(format, args...))
		}),
	})
	defer f.later(func() {
		s.cut()            // or Close waits for the fetch that is under way
		_ = reader.Close() // never returns an error
	})
	if err := reader.SetOffset(position); err != nil {
		return position
	}
	for suspect := false; ; {
		before := position
		var err error
		if position, err = f.listen(usable, reader, position); err != nil {
			if ctx.Err() == nil {
				f.log.Warn("the reader is replaced", "position", position, "error", err)
			}
			return position
		}
		// What has just been written may be on its way, so it takes two looks.
		why := ""
		if position == before {
			why = f.behind(ctx, position)
		}
		if why != "" && suspect {
			f.log.Warn("the partition is silent; the reader is replaced", "position", position, "because", why)
			return position
		}
		suspect = why != ""
	}
}

// listen delivers records until there has been none for the time of silence; then there is no error.
func (f *feed) listen(ctx context.Context, reader *kafka.Reader, position int64) (int64, error) {
	fetch, cancel := context.WithTimeout(ctx, f.conf.silence)
	defer cancel()
	for {
		m, err := reader.FetchMessage(fetch)
		if ctx.Err() != nil {
			return position, context.Cause(ctx)
		}
		if fetch.Err() != nil && err != nil {
			return position, nil
		}
		if err != nil {
			return position, err
		}
		if m.Offset > position {
			f.skipped(ctx, position, m.Offset)
		}
		if !f.deliver(ctx, m) {
			return position, context.Cause(ctx)
		}
		position = m.Offset + 1
	}
}

// skipped reports a hole between two records, if it is the log's start that has moved.
func (f *feed) skipped(ctx context.Context, from, to int64) {
	if time.Since(f.looked) < lookEvery {
		return
	}
	switch first, _, err := f.look.bounds(ctx, f.at, kafka.ReadUncommitted); {
	case err != nil:
	case first > from:
		f.gap(from, min(first, to))
	default:
		f.looked = time.Now()
	}
}

// behind says why a silent reader should not be, or nothing if it may.
func (f *feed) behind(ctx context.Context, position int64) string {
	_, end, err := f.look.bounds(ctx, f.at, kafka.ReadCommitted)
	if err == nil && position > end {
		// Either the log has become shorter, or a transaction is open before the position.
		if _, end, err = f.look.bounds(ctx, f.at, kafka.ReadUncommitted); position < end {
			return ""
		}
	}
	switch {
	case ctx.Err() != nil:
		return ""
	case err == nil && position == end:
		f.to.atEnd()
		f.lookAtFence(ctx)
		return ""
	case err != nil:
		return fmt.Sprintf("where its log ends cannot be had: %v", err)
	default:
		return fmt.Sprintf("its log ends at %d", end)
	}
}

func (f *feed) deliver(ctx context.Context, m kafka.Message) bool {
	it := item{kind: data, m: message(m), end: m.HighWaterMark}
	if markerShaped(m) {
		control, ok := f.isControl(ctx, m.Offset)
		if !ok {
			return false
		}
		if control {
			it.kind = marker
		}
	}
	it.m.Epoch = f.applied.Epoch
	f.last = it.m.Position
	return f.to.admit(ctx, it)
}

// isControl asks until there is an answer: a guess could drop a record.
func (f *feed) isControl(ctx context.Context, offset int64) (control, ok bool) {
	for n := 1; ctx.Err() == nil; n++ {
		control, err := f.look.isControl(ctx, f.at, offset)
		if err == nil {
			return control, true
		}
		if ctx.Err() == nil {
			f.log.Warn("whether a record is a transaction marker cannot be had; trying again", "offset", offset, "error", err)
		}
		wait(ctx, brokerPace.Delay(n))
	}
	return false, false
}
