package kafkasub

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// fenceLimit bounds a question about the position.
const fenceLimit = 5 * time.Second

// fencerOf returns the processor if its store keeps positions, else nil.
func fencerOf(p dedup.Processor) dedup.Fencer {
	if f, ok := p.(dedup.Fencer); ok && f.Fenced() {
		return f
	}
	return nil
}

// begin finds where reading begins and tells the partition. Where the store keeps the position, it
// is the truth: it was committed with the effects. The group's offset may be behind it after a
// crash, and ahead of it after the database was restored from a backup.
func (f *feed) begin(ctx context.Context) (position int64, ok bool) {
	if f.fencer == nil {
		if position, ok = f.locate(ctx, f.start); !ok {
			return 0, false
		}
		if f.start == kafka.LastOffset {
			// It is committed at once, or what comes before the first commit is missed after a crash.
			return position, f.to.admit(ctx, item{kind: restarted, start: position, end: f.end})
		}
		return position, f.to.admit(ctx, item{kind: started, start: position, end: f.end})
	}
	applied, ok := f.askApplied(ctx)
	if !ok {
		return 0, false
	}
	f.applied, f.last = applied, dedup.Position{}
	first, end, found, ok := f.compare(ctx)
	if !ok {
		return 0, false
	}
	f.end = end
	if found != "" {
		return f.newLog(ctx, first, end, found)
	}
	if applied.Offset < 0 && applied.Epoch == 0 && f.start == kafka.LastOffset && end > 0 {
		if !f.moveFence(ctx, end-1) {
			return 0, false
		}
		return end, f.to.admit(ctx, item{kind: restarted, start: end, end: end})
	}
	position = applied.Offset + 1
	if position < first {
		from := position
		if applied.Offset < 0 {
			from = f.start
		}
		if from >= 0 && from < first {
			f.gap(from, first)
		}
		position = first
	}
	kind, ok := f.differs(ctx, &position, end)
	return position, ok && f.to.admit(ctx, item{kind: kind, start: position, end: end})
}

// askApplied asks the store for the position until there is an answer.
func (f *feed) askApplied(ctx context.Context) (applied store.Applied, ok bool) {
	return applied, f.insist(ctx, "the position that was applied", func() (err error) {
		limited, cancel := context.WithTimeout(ctx, fenceLimit)
		defer cancel()
		applied, err = f.fencer.Applied(limited, f.at.topic, f.at.partition)
		return err
	})
}

// insist asks until there is an answer. It reports false when ctx has ended.
func (f *feed) insist(ctx context.Context, what string, ask func() error) bool {
	for n := 1; ctx.Err() == nil; n++ {
		err := ask()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			f.log.Warn(what+" cannot be had; trying again", "error", err)
		}
		wait(ctx, brokerPace.Delay(n))
	}
	return false
}

// compare looks whether the log is the one that was applied. What it finds otherwise is not empty.
func (f *feed) compare(ctx context.Context) (first, end int64, found string, ok bool) {
	for looks := 1; ; looks++ {
		ok = f.insist(ctx, "the state of the log", func() (err error) {
			if first, end, err = f.look.bounds(ctx, f.at, kafka.ReadUncommitted); err == nil {
				found, err = f.compareWith(ctx, first, end)
			}
			return err
		})
		// A leader that has just been elected may not know its end yet.
		if shorter := end <= f.applied.Offset; !ok || !shorter || looks == shorterLooks {
			return first, end, found, ok
		}
		wait(ctx, brokerPace.Delay(looks))
	}
}

func (f *feed) compareWith(ctx context.Context, first, end int64) (found string, err error) {
	at := f.applied.Offset
	switch {
	case at < 0 && (f.applied.Epoch > 0 || f.start <= first):
		return "", nil // on purpose, or nothing has been read yet
	case at < 0:
		g, err := f.look.glimpse(ctx, f.at, first, min(end, f.start))
		if err == nil && g.found && g.m.Position.Offset < f.start {
			found = fmt.Sprintf("the group has committed offset %d, but the store has applied nothing", f.start)
		}
		return found, err
	case end <= at:
		return fmt.Sprintf("it ends at %d, and offset %d was applied: it was made again or cut", end, at), nil
	case first > at:
		f.log.Warn("the last message that was applied is no longer in the log; whether the log is the same cannot be told", "applied", at, "start", first)
		return "", nil
	}
	g, err := f.look.glimpse(ctx, f.at, at, end)
	switch {
	case err != nil:
		return "", err
	case g.found && g.m.Position.Offset == at && (f.applied.Record.IsZero() || f.applied.Record == dedup.RecordOf(g.m)):
		f.last = g.m.Position
		return "", nil
	case g.found && g.m.Position.Offset == at, g.marker && !f.applied.Record.IsZero():
		return fmt.Sprintf("it has another record at offset %d than the one that was applied: it was made again", at), nil
	case !f.applied.Record.IsZero():
		f.log.Info("the last message that was applied has been compacted away; whether the log is the same cannot be told", "applied", at)
	}
	return "", nil
}

// differs compares the position with the offset that the group has committed, and says how the
// partition begins: where they differ, the position is committed at once.
func (f *feed) differs(ctx context.Context, position *int64, end int64) (kind, bool) {
	switch committed := f.start; {
	case f.again, committed < 0 && f.applied.Offset >= 0:
		return restarted, true
	case committed < 0, committed == *position:
		return started, true
	case committed < *position:
		f.log.Info("the store has applied more than the group has committed", "committed", committed, "position", *position)
		return restarted, true
	default:
		var g glimpse
		ok := f.insist(ctx, "what lies before the committed offset", func() (err error) {
			g, err = f.look.glimpse(ctx, f.at, *position, min(end, committed))
			return err
		})
		if !g.found && committed <= end {
			*position = committed // only markers of transactions lie between
			return started, ok
		}
		f.log.Warn("the group has committed more than the store has applied, as after a restore; reading again what is not applied", "committed", committed, "position", *position)
		return restarted, ok
	}
}

// lookAtFence notices that the position was restarted while there was nothing to read.
func (f *feed) lookAtFence(ctx context.Context) {
	if f.fencer == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, fenceLimit)
	defer cancel()
	applied, err := f.fencer.Applied(limited, f.at.topic, f.at.partition)
	if err == nil && applied.Epoch != f.applied.Epoch {
		f.log.Warn("the position of the partition was restarted; looking where to go on", "position", applied.Offset+1)
		f.to.rereads()
	}
}
