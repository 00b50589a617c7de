package kafkasub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// sliceTime is how much work, as last measured, is handed to an EachProcessor at once. What
// has been handed over cannot be called back when the intake ends, only rolled back.
const sliceTime = 100 * time.Millisecond

// lane handles the records of one partition, one after another.
type lane struct {
	at      place
	feed    *feed
	conf    *config
	process func(ctx context.Context, ms []dedup.Message) []dedup.Result
	burier  dedup.Burier // nil: stop instead
	commits *commits
	log     *slog.Logger
	done    chan struct{} // closed when run has returned

	queue queue // fetched, not settled
	head  head  // of the queue's first record
	limit int   // records in the next slice
	ms    []dedup.Message

	settled, end, failures atomic.Int64 // for whoever asks
}

// head is what is known of the message that everything behind it waits for.
type head struct {
	offset   int64
	time     time.Time
	spent    int       // attempts
	failures int       // results in a row that did not settle it
	due      time.Time // of the next try
}

func newLane(g *generation, at place, start int64) *lane {
	l := &lane{
		at: at, conf: &g.conf, commits: g.commits, log: g.logAt(at), done: make(chan struct{}),
		head: g.known(at), limit: 1,
		feed: newFeed(g, at, start),
	}
	if !g.conf.noDeadLetters {
		l.burier, _ = g.processor.(dedup.Burier)
	}
	if b, ok := g.processor.(dedup.BatchProcessor); ok && g.conf.batch > 0 {
		l.process, l.limit = b.ProcessBatch, g.conf.batch
	} else if e, ok := g.processor.(dedup.EachProcessor); ok {
		l.process = e.ProcessEach
	} else {
		l.process = func(ctx context.Context, ms []dedup.Message) []dedup.Result {
			return []dedup.Result{g.processor.Process(ctx, ms[0])}
		}
	}
	l.settled.Store(-1)
	l.end.Store(-1)
	return l
}

// run handles records until the intake ends. Its error stops the consumer.
func (l *lane) run(intake, handlers context.Context) error {
	for l.fill(intake) {
		l.pass()
		ms := l.slice()
		if len(ms) == 0 {
			continue
		}
		if !wait(intake, time.Until(l.head.due)) {
			return nil
		}
		began := time.Now()
		results := l.process(handlers, ms)
		l.pace(len(results), time.Since(began))
		failed, err := l.settle(ms, results)
		if err != nil {
			return err
		}
		if failed != nil && handlers.Err() == nil {
			if err := l.decide(intake, handlers, *failed); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle takes the settled records off the queue and returns the result that is not.
func (l *lane) settle(ms []dedup.Message, results []dedup.Result) (*dedup.Result, error) {
	if len(results) == 0 || len(results) > len(ms) {
		return nil, fmt.Errorf("%s@%d: the processor returned %d results for %d messages", l.at, ms[0].Position.Offset, len(results), len(ms))
	}
	var failed *dedup.Result
	for i := range results {
		if !results[i].Outcome.Settled() {
			failed = &results[i]
			break
		}
		l.settleHead()
	}
	l.pass()
	return failed, nil
}

// pace chooses the next slice from how long the last one took.
func (l *lane) pace(n int, took time.Duration) {
	if l.conf.batch > 0 {
		return
	}
	fits := int64(n) * int64(sliceTime) / int64(max(took, time.Microsecond))
	l.limit = int(max(1, min(fits, int64(2*l.limit), int64(l.conf.prefetch))))
}

// decide does what the policy says about the head of the queue.
func (l *lane) decide(intake, handlers context.Context, r dedup.Result) error {
	m := l.queue.front().m
	l.lead(&m)
	l.head.failures++
	l.failures.Store(int64(l.head.failures))
	d := l.conf.policy.Decide(r, l.head.spent, l.head.failures)
	if d.Spent {
		l.head.spent++
	}
	log := l.log.With("offset", m.Position.Offset, "attempts", l.head.spent, "outcome", r.Outcome, "fault", r.Fault, "error", r.Err)
	switch d.Action {
	case consumers.Retry:
		log.Warn("message not settled; trying again", "after", d.After)
		l.head.due = time.Now().Add(d.After)
		return nil
	case consumers.Bury:
		if l.burier == nil {
			return fmt.Errorf("%s@%d: given up after %d attempts, and there are no dead letters: %w", l.at, m.Position.Offset, l.head.spent, r.Err)
		}
		log.Warn("message given up; burying it")
		return l.bury(intake, handlers, m, r.Err)
	default:
		return fmt.Errorf("%s@%d: %s: %w", l.at, m.Position.Offset, r.Fault, cause(r))
	}
}

// bury repeats until the dead letter is committed: a message is neither lost nor passed over.
func (l *lane) bury(intake, handlers context.Context, m dedup.Message, reason error) error {
	for n := 1; ; n++ {
		r := l.burier.Bury(handlers, m, reason)
		switch {
		case r.Outcome.Settled():
			l.settleHead()
			l.pass()
			return nil
		case handlers.Err() != nil:
			return nil
		case r.Fault == store.FaultSetup, r.Fault == store.FaultHandler && dedup.IsPermanent(r.Err):
			return fmt.Errorf("%s@%d: bury: %w", l.at, m.Position.Offset, cause(r))
		}
		l.log.Warn("message not buried; trying again", "offset", m.Position.Offset, "outcome", r.Outcome, "error", r.Err)
		if !wait(intake, l.conf.policy.Delay(n)) {
			return nil
		}
	}
}

func (l *lane) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func cause(r dedup.Result) error {
	if r.Err == nil {
		return errors.New("the processor gave no reason")
	}
	return r.Err
}
