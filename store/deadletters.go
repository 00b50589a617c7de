package store

import (
	"context"
	"time"
)

// DeadLetter is a message that was given up, with everything needed to understand it
// and to run it again.
type DeadLetter struct {
	// ID orders dead letters by arrival; the store sets it.
	ID int64
	// Consumer is the name that gave up.
	Consumer string
	// Key is the stored key, KeyText the identity it was made from (cut to 256 bytes).
	Key     Key
	KeyText []byte

	// Where the message was: broker, topic or stream or source, partition, offset or
	// sequence, and the time the log gave it.
	Broker    string
	Topic     string
	Log       string
	Partition int
	Offset    int64
	Time      time.Time

	// What it was. A nil MessageKey or Body stays nil, an empty one stays empty.
	MessageKey []byte
	Headers    []Header
	Body       []byte

	// Why it was given up, after how many attempts, and when by the store's clock.
	Reason   string
	Attempts int
	BuriedAt time.Time
}

// Burier writes dead letters inside the transaction that holds the message's mark, so
// that nothing falls between the two.
type Burier[TTx any] interface {
	BuryTx(ctx context.Context, tx TTx, d DeadLetter) error
}

// DeadLetters reads and discards what was buried.
type DeadLetters interface {
	// ListDead returns at most limit letters of the consumer (of all when it is empty)
	// with an ID above after, oldest first.
	ListDead(ctx context.Context, consumer string, after int64, limit int) ([]DeadLetter, error)
	// GetDead returns one letter, or [ErrNotFound].
	GetDead(ctx context.Context, id int64) (DeadLetter, error)
	// DiscardDead removes letters for good and returns how many were there. Their marks
	// stay: a discarded message that is delivered again is a duplicate.
	DiscardDead(ctx context.Context, ids ...int64) (int, error)
}
