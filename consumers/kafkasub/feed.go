package kafkasub

import (
	"context"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/dedup"
)

// shorterLooks is how often in a row the log must be seen to end before the position. A leader
// that has just been elected may not know its end yet.
const shorterLooks = 3

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
	later   func(func())
	log     *slog.Logger
	last    dedup.Position // of the record that was read last
	looked  time.Time      // at a hole that was harmless
	end     int64          // of the log, when it was last located
	shorter int
}

func newFeed(g *generation, at place, start int64) *feed {
	return &feed{
		at: at, start: start, out: make(chan item, g.conf.prefetch),
		conf: &g.conf, group: &g.group, look: g.look, later: g.background, log: g.logAt(at),
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

// locate finds where reading goes on: at the position, if the log has it and is still the one that
// was read. It reports false when ctx has ended.
func (f *feed) locate(ctx context.Context, position int64) (int64, bool) {
	for n := 1; ctx.Err() == nil; n++ {
		first, end, err := f.look.bounds(ctx, f.at, kafka.ReadUncommitted)
		if err == nil && position > first && position <= end && f.last.Offset == position-1 {
			var same bool
			if same, err = f.look.isSame(ctx, f.at, f.last); err == nil && !same {
				f.log.Warn("the log has other records than before: it was made again; reading it from its start", "position", position, "start", first, "end", end)
				return f.restart(ctx, first, end)
			}
		}
		if err != nil {
			if ctx.Err() == nil {
				f.log.Warn("the state of the log cannot be had; trying again", "error", err)
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
		f.log.Warn("the log ends before the position: it was made again or cut; reading it from its start", "position", position, "start", first, "end", end)
		return f.restart(ctx, first, end)
	}
	return position, false
}

func (f *feed) restart(ctx context.Context, first, end int64) (int64, bool) {
	f.shorter, f.last = 0, dedup.Position{}
	return first, f.put(ctx, item{kind: restarted, start: first, end: end})
}

func (f *feed) gap(from, to int64) {
	f.log.Warn("records were removed from the log before they were read", "from", from, "to", to, "missing", to-from)
}

func (f *feed) put(ctx context.Context, it item) bool {
	select {
	case f.out <- it:
		return true
	case <-ctx.Done():
		return false
	}
}
