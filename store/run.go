package store

import (
	"context"
	"strconv"
	"sync"
)

// Origin is what a message is to a consumer: the root of the ids of all that it causes.
type Origin struct {
	Consumer string
	Key      Key
}

// IsZero tells an origin that was never set.
func (o Origin) IsZero() bool { return o.Consumer == "" }

// ID follows from the consumer's name and the key alone, so it is the same in every
// process and every database.
func (o Origin) ID() ID {
	name := o.Consumer
	if o.Key.Timed {
		// Somebody may choose an id that has the bytes of another one's digest. No consumer's
		// name ends like this.
		name += "\x00"
	}
	return ChildID(o.Key.ID, name)
}

// Run is one execution of a handler for one message. A guard puts it into the
// handler's context, so that what the handler writes to an outbox gets ids that follow
// from the message, and so that whoever waits for those rows is woken after the commit.
// It carries no transaction.
type Run struct {
	mu     sync.Mutex
	origin Origin
	find   func() Origin // instead of the origin, until it is needed
	events int
	after  []func()
}

// NewRun starts a run for the message whose origin is given. The zero Origin is a run for
// many messages at once, in which an ordinal would depend on how they were batched.
func NewRun(origin Origin) *Run { return &Run{origin: origin} }

// NewRunOf is [NewRun] for an origin that costs something to find: find is called when the first id is
// asked for, and not at all by the many handlers that ask for none.
func NewRunOf(find func() Origin) *Run { return &Run{find: find} }

// NextID returns the id of the next event of this run: it follows from the message and
// the event's ordinal, so a handler that runs again emits the same ids in the same order.
// It reports false in a run for many messages, where every event needs an id of its own.
func (r *Run) NextID() (ID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.find != nil {
		r.origin, r.find = r.find(), nil
	}
	if r.origin.IsZero() {
		return ID{}, false
	}
	r.events++
	return ChildID(r.origin.ID(), "#"+strconv.Itoa(r.events)), true
}

// AfterCommit registers a function that is called once if the run's transaction
// commits. It is a courtesy and no guarantee: a process that dies between the commit
// and the call never makes it.
func (r *Run) AfterCommit(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = append(r.after, f)
}

// Committed calls what AfterCommit registered. Guards call it.
func (r *Run) Committed() {
	r.mu.Lock()
	after := r.after
	r.after = nil
	r.mu.Unlock()
	for _, f := range after {
		f()
	}
}

type runKey struct{}

// WithRun puts a run into a context.
func WithRun(ctx context.Context, r *Run) context.Context {
	return context.WithValue(ctx, runKey{}, r)
}

// RunFrom returns the context's run, or nil outside of a handler.
func RunFrom(ctx context.Context) *Run {
	r, _ := ctx.Value(runKey{}).(*Run)
	return r
}
