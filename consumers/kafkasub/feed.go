package kafkasub

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/dedup"
)

const (
	// lookEvery is the least time before holes between records are looked into again after
	// one was harmless. A compacted topic has them everywhere.
	lookEvery = 10 * time.Second
	// shorterLooks is how often in a row the log must be seen to end before the position.
	// A leader that has just been elected may not know its end yet.
	shorterLooks = 3
)

type kind uint8

const (
	data      kind = iota + 1
	marker         // the end of a transaction: no handler, but its offset counts
	started        // nothing but where the lane begins
	restarted      // the lane goes on at another offset, which is committed at once
)

// item is what a feed hands to its lane.
type item struct {
	kind  kind
	m     dedup.Message
	start int64 // where the lane begins or goes on
	end   int64 // of the log, as the broker told with the record; -1 if it did not
}

// feed reads one partition. It owns the position: where the reader goes on after an error.
type feed struct {
	at      place
	start   int64 // what the group says: an offset, or FirstOffset, or LastOffset
	out     chan item
	conf    *config
	group   *kafka.ConsumerGroupConfig
	look    *lookup
	leave   func() // gives the generation up, so that the group asks for its offsets again
	later   func(func())
	log     *slog.Logger
	looked  time.Time // at a hole that was harmless
	end     int64     // of the log, when it was last located
	shorter int
}

func newFeed(g *generation, at place, start int64, leave func()) *feed {
	return &feed{
		at: at, start: start, out: make(chan item, g.conf.prefetch),
		conf: &g.conf, group: &g.group, look: g.look, leave: leave, later: g.background, log: g.logAt(at),
	}
}

// run reads until ctx ends.
func (f *feed) run(ctx context.Context) {
	position, ok := f.locate(ctx, f.start)
	if !ok {
		return
	}
	begin := item{kind: started, start: position, end: f.end}
	if f.start == kafka.LastOffset {
		begin.kind = restarted // or what comes before the first commit is missed after a crash
	}
	ok = f.put(ctx, begin)
	for n := 0; ok; n++ {
		before := position
		if position = f.read(ctx, position); position != before {
			n = 0
		}
		wait(ctx, brokerPace.Delay(n))
		position, ok = f.locate(ctx, position)
	}
}

// locate finds where reading goes on: at the position if the log still has it. It reports false
// when ctx has ended.
func (f *feed) locate(ctx context.Context, position int64) (int64, bool) {
	for n := 1; ctx.Err() == nil; n++ {
		first, end, err := f.look.bounds(ctx, f.at, kafka.ReadUncommitted)
		if err != nil {
			if ctx.Err() == nil {
				f.log.Warn("where the log begins and ends cannot be had; trying again", "error", err)
			}
			wait(ctx, brokerPace.Delay(n))
			continue
		}
		f.end = end
		switch {
		case position == kafka.FirstOffset:
			return first, true
		case position == kafka.LastOffset:
			return end, true
		case position < first:
			f.gap(position, first)
			return first, true
		case position <= end:
			f.shorter = 0
			return position, true
		}
		if f.shorter++; f.shorter < shorterLooks {
			wait(ctx, brokerPace.Delay(n))
			continue
		}
		f.shorter = 0
		f.log.Warn("the log ends before the committed offset: it was made again or cut; reading it from its start", "committed", position, "start", first, "end", end)
		return first, f.put(ctx, item{kind: restarted, start: first, end: end})
	}
	return position, false
}

func (f *feed) gap(from, to int64) {
	f.log.Warn("records were removed from the log before they were read", "from", from, "to", to, "missing", to-from)
}

// read delivers records until its reader has to be replaced, and returns the position.
func (f *feed) read(ctx context.Context, position int64) int64 {
	s := newSockets()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: f.group.Brokers, Dialer: s.dialer(f.group.Dialer),
		Topic: f.at.topic, Partition: f.at.partition,
		QueueCapacity: f.conf.prefetch, ReadLagInterval: -1,
		MinBytes: f.conf.minBytes, MaxBytes: f.conf.maxBytes, MaxWait: f.conf.maxWait,
		MaxAttempts: 1, OffsetOutOfRangeError: true, ErrorLogger: f.errors(s),
		// Records of an open transaction are not read. Those of an aborted one are, because
		// kafka-go does not filter them.
		IsolationLevel: kafka.ReadCommitted,
	})
	defer f.later(func() {
		s.cut()            // or Close waits for the fetch that is under way
		_ = reader.Close() // never returns an error
	})
	if err := reader.SetOffset(position); err != nil {
		return position
	}

	for {
		before := position
		var ok bool
		if position, ok = f.listen(ctx, reader, position); !ok {
			return position
		}
		if position == before && f.behind(ctx, position) {
			return position
		}
	}
}

// errors is the group's log of errors without those that come from cutting the sockets.
func (f *feed) errors(s *sockets) kafka.Logger {
	return kafka.LoggerFunc(func(format string, args ...any) {
		if s.ctx.Err() == nil {
			f.group.ErrorLogger.Printf(format, args...)
		}
	})
}

// listen delivers records for one period of silence. It reports false when the reader is of no
// more use.
func (f *feed) listen(ctx context.Context, reader *kafka.Reader, position int64) (int64, bool) {
	fetch, cancel := context.WithTimeout(ctx, f.conf.silence)
	defer cancel()
	for {
		m, err := reader.FetchMessage(fetch)
		switch {
		case err == nil:
			if m.Offset > position {
				f.skipped(ctx, position, m.Offset)
			}
			if !f.deliver(ctx, m) {
				return position, false
			}
			position = m.Offset + 1
		case fetch.Err() != nil:
			return position, ctx.Err() == nil
		case errors.Is(err, kafka.OffsetOutOfRange):
			return position, false // and locate says more
		case errors.Is(err, kafka.UnknownTopicOrPartition):
			// If the topic is made again, the position means nothing any more. The group knows:
			// it loses a topic's offsets along with the topic.
			f.log.Warn("the partition is gone; leaving the generation", "error", err)
			f.leave()
			return position, false
		default:
			// The reader goes on by itself, but what it finds meanwhile are more such errors, and
			// they would all have to be read before the first record after the outage.
			f.log.Warn("read failed; trying again", "position", position, "error", err)
			return position, false
		}
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

// behind tells whether a silent reader is to be replaced.
func (f *feed) behind(ctx context.Context, position int64) bool {
	_, end, err := f.look.bounds(ctx, f.at, kafka.ReadCommitted)
	if err == nil && position > end {
		// Either the log has become shorter, or a transaction is open before the position.
		if _, end, err = f.look.bounds(ctx, f.at, kafka.ReadUncommitted); position < end {
			return false
		}
	}
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		f.log.Warn("the partition is silent, and where its log ends cannot be had; replacing the reader", "position", position, "error", err)
		return true
	case position != end:
		f.log.Warn("the partition is silent although it has other records; replacing the reader", "position", position, "end", end)
		return true
	}
	return false
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
	return f.put(ctx, it)
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

func (f *feed) put(ctx context.Context, it item) bool {
	select {
	case f.out <- it:
		return true
	case <-ctx.Done():
		return false
	}
}
