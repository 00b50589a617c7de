package kafkasub

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// shorterLooks is how often in a row the log must be seen to end before the position. A leader
// that has just been elected may not know its end yet.
const shorterLooks = 3

type kind uint8

const (
	data      kind = iota + 1
	marker         // the end of a transaction: no handler, but its offset counts
	started        // nothing but where the partition begins
	restarted      // the partition goes on at another offset, which is committed once it is reached
)

// item is what a feed hands to its partition.
type item struct {
	kind  kind
	m     dedup.Message
	start int64 // where the partition begins or goes on
	end   int64 // of the log, as the broker told with the record; -1 if it did not
}

// feed reads one partition. It owns the position: where the reader goes on after an error.
type feed struct {
	at      place
	to      *partition
	start   int64 // what the group says: an offset, or FirstOffset, or LastOffset
	conf    *config
	group   *kafka.ConsumerGroupConfig
	look    *lookup
	fencer  dedup.Fencer  // nil: the store keeps no position
	applied store.Applied // what it said last
	again   bool          // it was asked before in this generation
	later   func(func())
	log     *slog.Logger
	last    dedup.Position // of the record that was read last
	looked  time.Time      // at a hole that was harmless
	end     int64          // of the log, when it was last located
	shorter int
}

func newFeed(g *generation, to *partition, start int64) *feed {
	return &feed{
		at: to.at, to: to, start: start,
		conf: &g.conf, group: &g.group, look: g.look, fencer: g.fencer, later: g.background, log: to.log,
	}
}

// run reads until ctx ends. It begins anew when a lane has learnt that the position was restarted.
func (f *feed) run(ctx context.Context) {
	if !f.to.enter(ctx) {
		return
	}
	for n := 1; ctx.Err() == nil; n++ {
		reading, end := f.to.reading(ctx)
		began := time.Now()
		f.readOn(reading)
		end()
		if time.Since(began) > brokerPace.MaxDelay {
			n = 1
		}
		wait(ctx, brokerPace.Delay(n))
		f.again = true
	}
}

func (f *feed) readOn(ctx context.Context) {
	position, ok := f.begin(ctx)
	if ok && position == f.end {
		f.to.atEnd()
	}
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
				return f.restart(ctx, first, end, fmt.Sprintf("it has another record before offset %d than the one that was read: it was made again", position))
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
		return f.restart(ctx, first, end, fmt.Sprintf("it ends at %d, before the position %d: it was made again or cut", end, position))
	}
	return position, false
}

// restart goes over to a log that is another one than before.
func (f *feed) restart(ctx context.Context, first, end int64, found string) (int64, bool) {
	if f.fencer != nil {
		return f.newLog(ctx, first, end, found)
	}
	f.log.Warn("the log is another one than before; reading it from its start", "because", found, "start", first, "end", end)
	f.shorter, f.last = 0, dedup.Position{}
	return first, f.to.admit(ctx, item{kind: restarted, start: first, end: end})
}

func (f *feed) gap(from, to int64) {
	f.log.Warn("records were removed from the log before they were read", "from", from, "to", to, "missing", to-from)
}
