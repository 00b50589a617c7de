package store

import "context"

// Place is a message's place in its log.
type Place struct {
	Log       string
	Partition int
	Offset    int64
	// Record tells the record there from another one that had the same offset before the log was
	// made again.
	Record ID
	// Epoch is that of the fence, as [Fences].Applied told it.
	Epoch int64
	// Known is one more than the last offset of the partition that was seen committed in this epoch,
	// by whoever has the message. Zero: nothing is known.
	Known int64
}

// Applied is how far a consumer has come in one partition of a log: everything up to Offset has
// had its effect, and nothing after it.
type Applied struct {
	// Offset is that of the last message applied, or -1 before the first one.
	Offset int64
	// Record is that of the message at Offset, zero where there is none.
	Record ID
	// Epoch grows with every restart of the fence.
	Epoch int64
}

// Fences is what a [Marks] implements that keeps, for every scope, log and partition, the position
// of the last message applied, committed together with its effect. It decides by [Mark].Place:
// a place at or before the position is Seen, one after it is New and moves the position there. That
// is right only where messages come in the order of their log, and it costs one row per partition
// instead of one per message.
//
// The row also fences: whoever begins while another transaction moves the same position waits for
// it, as with a mark. A place with another epoch than the position's is refused with [ErrLost].
//
// So is a place that knows of more than the position does, on whichever side of the position it lies:
// the server has lost what was committed, as a replica has that was promoted before it had
// everything, and a server that was restored. Were the message taken, the position would pass over
// what was lost, and nothing could bring that back. Whoever is refused asks Applied and reads again
// from there.
type Fences interface {
	// Keyless is true where places decide alone, so that marks need no key.
	Keyless() bool
	// Applied returns the position. Where there is none yet it is {Offset: -1} in the epoch in
	// which the first one will be.
	Applied(ctx context.Context, scope Scope, log string, partition int) (Applied, error)
	// RestartFence begins a new epoch in which everything up to offset counts as applied (-1:
	// nothing does), for a log that was made again or cut. It returns [ErrLost] where the position
	// is not the expected one any more.
	RestartFence(ctx context.Context, scope Scope, log string, partition int, expected Applied, offset int64) (Applied, error)
}
