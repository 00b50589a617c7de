package store

import (
	"context"
	"time"
)

// LetterState is why a letter lies among the dead ones.
type LetterState uint8

const (
	// Dead: the message was given up. If it has an ordering key, the key is parked.
	Dead LetterState = iota
	// Waiting: the message has not been tried; its ordering key is parked.
	Waiting
	// Quarantined: the message is older than the marks that were removed, so nobody can tell
	// whether it was done.
	Quarantined
	// Conflicting: the message has the key of another one and a different fingerprint.
	Conflicting
)

func (s LetterState) String() string {
	switch s {
	case Dead:
		return "dead"
	case Waiting:
		return "waiting"
	case Quarantined:
		return "quarantined"
	case Conflicting:
		return "conflicting"
	default:
		return "no state"
	}
}

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
	State   LetterState
	// Order is the ordering key, nil where the message has none.
	Order []byte

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
// that nothing falls between the two. A letter that is Dead and has an ordering key parks
// that key, in the same transaction.
type Burier[TTx any] interface {
	BuryTx(ctx context.Context, tx TTx, d DeadLetter) error
}

// Reviver opens the transaction in which a letter's message is run again.
type Reviver[TTx any] interface {
	// Revive opens a transaction in which the letter is gone and, where nothing waits behind
	// it, its ordering key is no longer parked. Whoever revives it at the same time, and new
	// messages of its key, wait as for a mark. A letter of an ordering key of which an
	// earlier letter is there is refused with [ErrBehind], one that is not there with
	// [ErrNotFound], and nothing is left open.
	Revive(ctx context.Context, id int64) (Unit[TTx], DeadLetter, error)
}

// LetterFilter chooses dead letters. Its zero value takes all of them.
type LetterFilter struct {
	// Consumer, unless it is empty.
	Consumer string
	// Order is the ordering key, unless it is nil.
	Order []byte
	// States, unless there are none.
	States []LetterState
	// First and Last bound the ID, both included, unless they are zero.
	First, Last int64
	// Since and Until bound BuriedAt, from Since on and before Until, unless they are zero.
	Since, Until time.Time
}

// ParkedKey is an ordering key that waits for a person.
type ParkedKey struct {
	Consumer string
	Order    []byte
	// Head is the letter that the key waits for, Reason what became of it.
	Head   int64
	Reason string
	// Since is when the key was parked, Waiting how many messages wait behind the head.
	Since   time.Time
	Waiting int
}

// DeadLetters reads and discards what was buried.
type DeadLetters interface {
	// ListDead returns at most limit letters with an ID above after, oldest first.
	ListDead(ctx context.Context, f LetterFilter, after int64, limit int) ([]DeadLetter, error)
	// GetDead returns one letter, or [ErrNotFound].
	GetDead(ctx context.Context, id int64) (DeadLetter, error)
	// FailDead notes that the letter's message was run again and failed: one more attempt,
	// and why. It returns [ErrNotFound] where the letter is gone.
	FailDead(ctx context.Context, id int64, reason string) error
	// DiscardDead removes letters for good and returns how many were there. Their marks
	// stay: a discarded message that is delivered again is a duplicate. What waits behind a
	// discarded letter goes on waiting, until a person runs or discards it; with the last
	// letter of an ordering key the key is no longer parked.
	DiscardDead(ctx context.Context, ids ...int64) (int, error)
	// ParkedKeys returns at most limit parked keys of the consumer (of all when it is empty),
	// those that have waited longest first.
	ParkedKeys(ctx context.Context, consumer string, limit int) ([]ParkedKey, error)
}
