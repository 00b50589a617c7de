package store

import (
	"context"
	"time"
)

// Reach is how far a consumer has come in one partition of a log, in the time of its messages.
type Reach struct {
	Log       string
	Partition int
	// Newest is the time of the newest message that is settled. Zero is for messages that have
	// no time of their own: the store's clock at this moment.
	Newest time.Time
}

// Retention removes old marks by the time of the messages, as far as every partition has come: a
// consumer, or one partition of it, that was down for two weeks still finds the marks of what it
// has not read. From then on a message older than what was removed is [Late].
type Retention interface {
	// Reached says how far a scope has come. Times that lie before what was said earlier change
	// nothing, and neither do those later than the store's clock.
	Reached(ctx context.Context, scope Scope, partitions []Reach) error
}
