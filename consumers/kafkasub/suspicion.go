package kafkasub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/semel-dev/semel/dedup"
)

// maxStarts is how often a message may be begun under suspicion. One that has not been settled by
// then is buried before it runs once more.
const maxStarts = 3

// suspicion is what a partition is under whose former owner has not left in order: it may have
// died of a message. Then each message is begun alone, and that it was begun is committed before.
// Whatever the result is, it shows that the process has survived, and the start is taken back. So
// whoever comes after a further death finds those starts that nobody has come back from.
type suspicion struct {
	// messages is how many are yet to be handled like this: those that the dead owner may have had
	// in hand.
	messages atomic.Int64
	// repeats is how many duplicates may come on the way to them. It bounds how long a partition is
	// slow whose offsets had not been committed for long. Where it is too small, those duplicates
	// are committed now, and the next owner gets further.
	repeats atomic.Int64
}

func (s *suspicion) begin(prefetch, lanes int) {
	messages := int64(prefetch)
	if lanes > 1 {
		messages *= 2 // other lanes may be ahead by the prefetch when its turn comes
	}
	s.repeats.Store(10 * messages)
	s.messages.Store(messages)
}

func (s *suspicion) active() bool { return s.messages.Load() > 0 && s.repeats.Load() > 0 }

// over says that none of what the dead owner had in hand lies ahead: all of it has been handled, or
// everything in the log is settled. A log that could not be read yet says nothing.
func (s *suspicion) over(settled, end int64) bool {
	return s.messages.Load() <= 0 || settled >= 0 && settled >= end
}

func (s *suspicion) settled(o dedup.Outcome) {
	if o == dedup.Duplicate {
		s.repeats.Add(-1)
	} else {
		s.messages.Add(-1)
	}
}

// passed counts what is settled after the duplicates have become too many to go on one at a time.
func (s *suspicion) passed(results []dedup.Result) {
	if s.messages.Load() <= 0 {
		return
	}
	for i := range results {
		if results[i].Outcome.Settled() {
			s.settled(results[i].Outcome)
		}
	}
}

// handAlone hands over a message that may be deadly. No other such message runs in this process at
// the same time, of whatever partition: if it dies, it is clear of which. What runs besides is under
// no suspicion and is not counted.
func (l *lane) handAlone(intake, handlers context.Context, ms []dedup.Message) error {
	select {
	case l.alone <- struct{}{}:
	case <-intake.Done():
		return nil
	}
	others := sync.OnceFunc(func() { <-l.alone })
	defer others()
	if !l.gate.pass(intake) {
		return nil
	}
	// A message that has failed here has run and has not killed: its attempts bound it. One that was
	// busy, or met an outage, may not even have run, so it is counted each time.
	if !l.head.cleared {
		switch starts, err := l.start(handlers, &ms[0]); {
		case err != nil:
			return l.notStarted(handlers, err)
		case starts > maxStarts:
			l.survive(handlers, ms[0]) // it does not run
			others()
			ms[0].Attempt = max(ms[0].Attempt, starts-1)
			return l.giveUp(intake, handlers, ms[0], deadly(starts-1))
		}
	}
	results := l.process(handlers, ms)
	failed, err := l.settle(handlers, ms, results)
	if err != nil {
		return err
	}
	if failed == nil {
		l.partition.suspicion.settled(results[0].Outcome)
		return nil
	}
	if handlers.Err() != nil {
		return nil // the partition takes the start back when it is left
	}
	l.survive(handlers, ms[0]) // before another one may end the process
	others()
	return l.decide(intake, handlers, *failed)
}

func deadly(n int) error {
	return fmt.Errorf("the process may have died of it %d times: it was begun %d times and nobody came back from it", n, n)
}

// start counts that the head is begun. What others have counted of its attempts comes in here.
func (l *lane) start(ctx context.Context, m *dedup.Message) (starts int, err error) {
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	tally, err := l.counter.Start(ctx, *m, l.partition.starter)
	if dedup.IsPermanent(err) {
		return 0, nil // it cannot be told from others, and so it will not be handled either
	}
	l.head.begun, l.head.counted = true, true // perhaps even on an error
	if err != nil {
		return 0, err
	}
	l.head.spent = max(l.head.spent, tally.Spent)
	m.Attempt = l.head.spent + 1
	return tally.Starts, nil
}

// survive takes the start of the head back. Where that fails, the next start of it in this process adds
// nothing, and it is tried again then, and when the partition is left.
func (l *lane) survive(ctx context.Context, m dedup.Message) {
	if !l.head.begun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	if err := l.counter.Survive(ctx, m, l.partition.starter); err != nil {
		l.log.Info("the start of a message that has not ended the process cannot be taken back yet", "offset", m.Position.Offset, "error", err)
		return
	}
	l.head.begun = false
}

// notStarted is an outage: a message that cannot be counted must not run.
func (l *lane) notStarted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	l.retry(dedup.Result{Outcome: dedup.Failed, Err: errors.Join(errors.New("its start cannot be counted"), err)}, l.conf.policy.Delay(l.fails()))
	return nil
}
