package consumertest

import (
	"context"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// call is a message that the consumer has handed over and that the case has to answer.
type call struct {
	dedup.Message
	ctx context.Context
	// at is when it was handed over, together how many messages were with it.
	at       time.Time
	together int
	// reason is that of a burial and nil otherwise.
	reason error
	burial bool
	// deaf calls do not hear that their context has ended.
	deaf  bool
	reply chan dedup.Result
}

func (c *call) answer(r dedup.Result) { c.reply <- r }

// actor is a processor that asks the case for every answer. It takes one message at a time.
type actor struct {
	calls chan *call
	deaf  bool
	ended chan struct{} // when the case ends, nobody answers any more
}

func (e *exam) actor() *actor {
	a := &actor{calls: make(chan *call), ended: make(chan struct{})}
	e.Cleanup(func() { close(a.ended) })
	return a
}

var canceled = dedup.Result{Outcome: dedup.Failed, Fault: store.FaultCanceled, Err: context.Canceled}

func (a *actor) ask(c *call) dedup.Result {
	c.at, c.deaf, c.reply = time.Now(), a.deaf, make(chan dedup.Result, 1)
	done := c.ctx.Done()
	if c.deaf {
		done = nil
	}
	select {
	case a.calls <- c:
	case <-done:
		return canceled
	case <-a.ended:
		return canceled
	}
	select {
	case r := <-c.reply:
		return r
	case <-done:
		return canceled
	case <-a.ended:
		return canceled
	}
}

// Process implements [dedup.Processor].
func (a *actor) Process(ctx context.Context, m dedup.Message) dedup.Result {
	return a.ask(&call{Message: m, ctx: ctx, together: 1})
}

// Bury implements [dedup.Burier].
func (a *actor) Bury(ctx context.Context, m dedup.Message, reason error) dedup.Result {
	return a.ask(&call{Message: m, ctx: ctx, together: 1, reason: reason, burial: true})
}

func (a *actor) several(ctx context.Context, ms []dedup.Message) []dedup.Result {
	var results []dedup.Result
	for _, m := range ms {
		r := a.ask(&call{Message: m, ctx: ctx, together: len(ms)})
		results = append(results, r)
		if !r.Outcome.Settled() {
			break
		}
	}
	return results
}

// each also takes messages one after another.
type each struct{ *actor }

func (e each) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	return e.several(ctx, ms)
}

// batch also takes many messages in one transaction.
type batch struct{ *actor }

func (b batch) ProcessBatch(ctx context.Context, ms []dedup.Message) []dedup.Result {
	return b.several(ctx, ms)
}

// buryless cannot bury.
type buryless struct{ a *actor }

func (b buryless) Process(ctx context.Context, m dedup.Message) dedup.Result {
	return b.a.Process(ctx, m)
}

// rude answers several messages with what its function says.
type rude struct {
	*actor
	results func(ctx context.Context, ms []dedup.Message) []dedup.Result
}

func (r rude) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	return r.results(ctx, ms)
}

func (r rude) ProcessBatch(ctx context.Context, ms []dedup.Message) []dedup.Result {
	return r.results(ctx, ms)
}

// unready is a processor whose store is not ready.
type unready struct {
	*actor
	err error
}

func (u unready) Check(context.Context) error { return u.err }
