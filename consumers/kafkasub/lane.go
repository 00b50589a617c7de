package kafkasub

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// sliceTime is how much work, as last measured, is handed to an EachProcessor at once. What
// has been handed over cannot be called back when the intake ends, only rolled back.
const sliceTime = 100 * time.Millisecond

// lane handles messages of one partition, one after another: all of them, or those whose
// ordering keys are its own. One that fails holds up its lane alone.
type lane struct {
	partition *partition
	conf      *config
	gate      *gate
	alone     chan struct{} // holds the one message of the process that runs under suspicion
	counter   dedup.Counter // nil: attempts are counted in memory alone
	process   func(ctx context.Context, ms []dedup.Message) []dedup.Result
	burier    dedup.Burier // nil: stop instead
	log       *slog.Logger
	done      chan struct{} // closed when run has returned

	inbox     queue         // what the feed has posted; with the partition's lock
	awaited   int           // so many in the inbox are to rouse the lane, if it is not zero; with the lock
	unsettled int           // in inbox and queue; with the lock
	wake      chan struct{} // rouses it

	queue queue // taken, not settled
	head  head  // of the queue's front
	limit int   // messages in the next slice

	running, failures atomic.Int64 // offset of what was handed over, and results in a row that did not settle it
}

func newLane(g *generation, p *partition) *lane {
	l := &lane{
		partition: p, conf: &g.conf, gate: &g.gate, alone: g.alone, counter: g.counter, log: p.log, limit: 1,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
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
	return l
}

// run handles messages until the intake ends. Its error stops the consumer.
func (l *lane) run(intake, handlers context.Context) error {
	for l.fill(intake) {
		ms := l.slice()
		if !wait(intake, time.Until(l.head.due)) || !l.gate.pass(intake) {
			return nil
		}
		l.running.Store(l.head.offset)
		var err error
		if l.partition.suspicion.active() {
			err = l.handAlone(intake, handlers, ms[:1])
		} else {
			err = l.hand(intake, handlers, ms)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) hand(intake, handlers context.Context, ms []dedup.Message) error {
	began := time.Now()
	results := l.process(handlers, ms)
	l.pace(len(results), time.Since(began))
	l.partition.suspicion.passed(results)
	failed, err := l.settle(handlers, ms, results)
	if err != nil || failed == nil || handlers.Err() != nil {
		return err
	}
	return l.decide(intake, handlers, *failed)
}

// settle takes the settled messages off the queue and returns the result that is not.
func (l *lane) settle(ctx context.Context, ms []dedup.Message, results []dedup.Result) (*dedup.Result, error) {
	if len(results) == 0 || len(results) > len(ms) {
		return nil, fmt.Errorf("%s@%d: the processor returned %d results for %d messages", l.partition.at, ms[0].Position.Offset, len(results), len(ms))
	}
	for i := range results {
		if !results[i].Outcome.Settled() {
			l.pass(ctx, i)
			return &results[i], nil
		}
	}
	l.pass(ctx, len(results))
	return nil, nil
}

// pass takes the first n messages off the queue: they are settled.
func (l *lane) pass(ctx context.Context, n int) {
	if n == 0 {
		return
	}
	first, counted := *l.queue.front(), l.head.counted
	l.failures.Store(0)
	l.head = head{}
	l.partition.settle(l, l.queue.pop(n))
	if counted {
		l.forget(ctx, first)
	}
}

// pace chooses the next slice from how long the last one took.
func (l *lane) pace(n int, took time.Duration) {
	if l.conf.batch > 0 {
		return
	}
	fits := int64(n) * int64(sliceTime) / int64(max(took, time.Microsecond))
	l.limit = int(max(1, min(fits, int64(2*l.limit), int64(l.conf.ahead()))))
}

func (l *lane) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}
