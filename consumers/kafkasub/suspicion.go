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
// died of a message. Then each message is begun alone, and that it was begun is committed
// before; whoever comes after a further death finds the count.
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

func (s *suspicion) settled(o dedup.Outcome) {
	if o == dedup.Duplicate {
		s.repeats.Add(-1)
	} else {
		s.messages.Add(-1)
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
	if !l.head.started {
		// Once in a process is enough: a message that has failed here has not killed it.
		switch starts, err := l.start(handlers, ms[0]); {
		case err != nil:
			return l.notStarted(handlers, err)
		case starts > maxStarts:
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
	others()
	if failed == nil {
		l.partition.suspicion.settled(results[0].Outcome)
	} else if handlers.Err() == nil {
		return l.decide(intake, handlers, *failed)
	}
	return nil
}

func deadly(n int) error {
	return fmt.Errorf("the process may have died of it %d times: it was begun %d times and neither settled nor failed", n, n)
}

// start counts that the head is begun.
func (l *lane) start(ctx context.Context, m dedup.Message) (starts int, err error) {
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	starts, err = l.counter.Start(ctx, m)
	if dedup.IsPermanent(err) {
		err = nil // it cannot be told from others, and so it will not be handled either
	}
	l.head.started, l.head.counted = err == nil, true
	return starts, err
}

// notStarted is an outage: a message that cannot be counted must not run.
func (l *lane) notStarted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	l.retry(dedup.Result{Outcome: dedup.Failed, Err: errors.Join(errors.New("its start cannot be counted"), err)}, l.conf.policy.Delay(l.fails()))
	return nil
}
