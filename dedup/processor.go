package dedup

import "context"

// Processor is all that a consumer knows of a guard. It ends the generics: from here
// outwards nobody needs to know what the handler's transaction is.
//
// A Processor is safe for concurrent use. It never acknowledges anything; the consumer
// does, after an outcome that is settled and only then.
type Processor interface {
	// Process handles one message and returns when its end is known, or known to be
	// unknown. A cancelled context rolls back what is running; the outcome is then
	// Failed with the context's error, and no attempt is used up.
	Process(ctx context.Context, m Message) Result
}

// EachProcessor handles messages one after another, each in a transaction of its own,
// and saves round trips where it can because it sees the next message.
type EachProcessor interface {
	Processor
	// ProcessEach returns one result for each message in order, and stops after the first
	// one that is not settled: the results may be fewer than the messages. The
	// messages behind it have had no effect.
	ProcessEach(ctx context.Context, ms []Message) []Result
}

// BatchProcessor handles many messages in one transaction.
type BatchProcessor interface {
	Processor
	// ProcessBatch works like ProcessEach, but commits together what can be committed
	// together. Where one message fails, the others are found another way: its
	// neighbours before it are settled, it is the last result, and those behind it have
	// had no effect.
	ProcessBatch(ctx context.Context, ms []Message) []Result
}

// Burier gives a message up: it commits the message's mark together with a dead letter.
type Burier interface {
	// Bury returns Buried, or Duplicate where the message turns out to be done, or
	// Failed or Unknown, upon which it must be called again before the message is
	// acknowledged.
	Bury(ctx context.Context, m Message, reason error) Result
}

// Checker is asked before the first message is fetched.
type Checker interface {
	// Check returns an error that says what a person has to do: the store cannot be
	// reached, its tables are missing, the role may not use them.
	Check(ctx context.Context) error
}
