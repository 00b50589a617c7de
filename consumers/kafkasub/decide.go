package kafkasub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// decide does what the policy says about the head of the lane.
func (l *lane) decide(intake, handlers context.Context, r dedup.Result) error {
	if l.overtaken(r) {
		return nil
	}
	l.lead()
	m := *l.queue.front()
	fails := l.fails()
	d := l.conf.policy.Decide(r, l.head.spent, fails)
	if d.Spent {
		l.spend(handlers, m)
		d = l.conf.policy.Decide(r, l.head.spent-1, fails)
	}
	switch d.Action {
	case consumers.Retry:
		l.retry(r, d.After)
		return nil
	case consumers.Bury:
		m.Attempt = max(m.Attempt, l.head.spent)
		return l.giveUp(intake, handlers, m, r.Err)
	default:
		return fmt.Errorf("%s@%d: %s: %w", l.partition.at, m.Position.Offset, r.Fault, cause(r))
	}
}

// overtaken is the answer to a message that was read before the position was restarted. Trying it
// again is of no use: the feed asks where to go on.
func (l *lane) overtaken(r dedup.Result) bool {
	if l.partition.feed.fencer == nil || !errors.Is(r.Err, store.ErrLost) {
		return false
	}
	l.log.Warn("the position of the partition was restarted or has gone back; looking where to go on", "offset", l.queue.front().Position.Offset, "error", r.Err)
	l.head = head{}
	l.partition.beginAnew(l)
	return true
}

// fails counts one more result that has not settled the head, and returns how many there are.
func (l *lane) fails() int {
	l.head.failures++
	l.failures.Store(int64(l.head.failures))
	return l.head.failures
}

func (l *lane) retry(r dedup.Result, after time.Duration) {
	l.log.Warn("message not settled; trying again", "offset", l.head.offset, "attempts", l.head.spent,
		"outcome", r.Outcome, "fault", r.Fault, "error", r.Err, "after", after)
	l.head.due = time.Now().Add(after)
}

func (l *lane) giveUp(intake, handlers context.Context, m dedup.Message, reason error) error {
	if l.burier == nil {
		return fmt.Errorf("%s@%d: given up after %d attempts, and there are no dead letters: %w", l.partition.at, m.Position.Offset, m.Attempt, reason)
	}
	l.log.Warn("message given up; burying it", "offset", m.Position.Offset, "attempts", m.Attempt, "error", reason)
	return l.bury(intake, handlers, m, reason)
}

// bury repeats until the dead letter is committed: a message is neither lost nor passed over.
func (l *lane) bury(intake, handlers context.Context, m dedup.Message, reason error) error {
	for n := 1; ; n++ {
		r := l.burier.Bury(handlers, m, reason)
		switch {
		case r.Outcome.Settled():
			l.pass(handlers, 1)
			return nil
		case l.overtaken(r):
			return nil
		case handlers.Err() != nil:
			return nil
		case r.Fault == store.FaultSetup, r.Fault == store.FaultHandler && dedup.IsPermanent(r.Err):
			return fmt.Errorf("%s@%d: bury: %w", l.partition.at, m.Position.Offset, cause(r))
		}
		l.log.Warn("message not buried; trying again", "offset", m.Position.Offset, "outcome", r.Outcome, "error", r.Err)
		if !wait(intake, l.conf.policy.Delay(n)) {
			return nil
		}
	}
}

func cause(r dedup.Result) error {
	if r.Err == nil {
		return errors.New("the processor gave no reason")
	}
	return r.Err
}
