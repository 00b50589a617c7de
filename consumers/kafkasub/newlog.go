package kafkasub

import (
	"context"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/dedup"
)

// ErrNewLog: the log of a partition is not the one of which the store keeps a position. Run
// returns it under [StopAtNewLog].
var ErrNewLog = errors.New("the log does not match what was applied of it")

// NewLog says what is done where a log turns out to be another one than that of which the store
// keeps a position ([dedup.Fencer]): its topic was deleted and made again, or it was cut when a
// broker lost data. What was applied of the old log stays applied, whatever the choice.
type NewLog uint8

const (
	// StopAtNewLog makes Run return an [ErrNewLog] that says what was found. It is the default:
	// only a person knows whether the records of the new log are new as well.
	StopAtNewLog NewLog = iota + 1
	// NewLogFromStart handles the new log from its first record on. Records that were copied over
	// from the old one have their effect once more, unless the store keeps keys too.
	NewLogFromStart
	// NewLogFromEnd skips what the new log has at that moment and handles what comes after.
	NewLogFromEnd
)

func (n NewLog) String() string {
	switch n {
	case StopAtNewLog:
		return "stop"
	case NewLogFromStart:
		return "from its start"
	case NewLogFromEnd:
		return "from its end"
	default:
		return "no policy"
	}
}

// WithNewLog is for processors whose store keeps positions. The default is [StopAtNewLog].
// Without positions a new log is read from its start, and the marks tell what is new.
func WithNewLog(policy NewLog) Option {
	return optionFunc(func(c *config) { c.newLog, c.newLogSet = policy, true })
}

// newLog does what the policy says about a log that is not the one that was applied, because of
// what was found. It reports false where reading does not go on from here.
func (f *feed) newLog(ctx context.Context, first, end int64, found string) (position int64, ok bool) {
	offset, position := int64(-1), first
	switch f.conf.newLog {
	case NewLogFromStart:
	case NewLogFromEnd:
		offset, position = end-1, end
	default:
		f.to.fail(fmt.Errorf("%s: %s: %w; pass WithNewLog to go on from the start or the end of the log, or set the position with RestartFence", f.at, found, ErrNewLog))
		return 0, false
	}
	f.log.Warn("the log is another one than before; reading it "+f.conf.newLog.String(), "because", found, "start", first, "end", end)
	if !f.moveFence(ctx, offset) {
		return 0, false
	}
	return position, f.to.admit(ctx, item{kind: restarted, start: position, end: end})
}

// moveFence begins an epoch of the position in which everything up to the offset counts as
// applied. Before that, what is still at work of the old log is settled: nobody would know
// afterwards how far it had come.
func (f *feed) moveFence(ctx context.Context, offset int64) bool {
	if !f.to.drained(ctx) {
		return false
	}
	applied, ok := f.askApplied(ctx)
	if !ok {
		return false
	}
	if applied.Epoch != f.applied.Epoch {
		f.log.Info("somebody else has restarted the position; looking again", "epoch", applied.Epoch)
		return false
	}
	limited, cancel := context.WithTimeout(ctx, fenceLimit)
	defer cancel()
	moved, err := f.fencer.RestartFence(limited, f.at.topic, f.at.partition, applied, offset)
	if err != nil {
		if ctx.Err() == nil {
			f.log.Warn("the position cannot be restarted; looking again", "error", err)
		}
		return false
	}
	f.applied, f.last, f.shorter = moved, dedup.Position{}, 0
	return true
}
