package dedup

import (
	"context"
	"time"

	"github.com/semel-dev/semel/store"
)

// Processor is all that a consumer knows of a guard. It ends the generics: from here
// outwards nobody needs to know what the handler's transaction is.
//
// What else a guard can do ([EachProcessor] and the interfaces below) consumers find by asking its
// type. A wrapper around a guard that hides one of them loses it without a word, so it embeds the
// guard and overrides what it means to; whoever only wants to watch needs none ([WithObserver]).
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

// Keeper tells how long marks are kept.
type Keeper interface{ Keep() time.Duration }

// Fencer is a processor that may keep, with the effects, the position of the last message applied
// of each partition. Consumers of logs that are read in order ask it where to begin. A message
// whose Epoch is not the fence's any more fails with [store.FaultBusy] and [store.ErrLost]: the
// position was restarted, and whoever works on it asks again. So does one that comes after the
// server has lost what was applied, in a failover or a restore; the position moves no further
// until it was asked for again.
type Fencer interface {
	// Fenced is false where no positions are kept; the other methods must not be called then.
	Fenced() bool
	// Applied returns the position.
	Applied(ctx context.Context, log string, partition int) (store.Applied, error)
	// RestartFence begins a new epoch in which everything up to offset counts as applied (-1:
	// nothing does): for a log that was made again or cut, and to handle a partition again on
	// purpose. It returns [store.ErrLost] where the position is not the expected one any more.
	RestartFence(ctx context.Context, log string, partition int, expected store.Applied, offset int64) (store.Applied, error)
}

// Counter is a processor that may count attempts so that they outlive a process.
type Counter interface {
	// Counts is false where nothing is counted; the other methods must not be called then.
	Counts() bool
	// Spend adds a failed attempt and returns how many the message has had, in all processes. Its
	// starts are forgotten: whoever fails has not ended its process.
	Spend(ctx context.Context, m Message) (int, error)
	// Start adds a start of a message that may have ended a process, and returns what is counted of
	// it then. It has committed when it returns. Starter is a name for this process, another one in
	// each run; its start counts once however often it is repeated.
	Start(ctx context.Context, m Message, starter string) (store.Tally, error)
	// Survive takes that start back: the message has ended somehow, and the process has not. It
	// does nothing where there is none any more.
	Survive(ctx context.Context, m Message, starter string) error
	// Forget is for a message that is settled after Spend or Start.
	Forget(ctx context.Context, m Message) error
	// Enter says that owner works on a partition from now on. Orderly is false where the one before
	// it has not left, and may have died of one of the partition's messages.
	Enter(ctx context.Context, log string, partition int, owner string) (orderly bool, err error)
	// Leave says that owner has left in order.
	Leave(ctx context.Context, log string, partition int, owner string) error
}
