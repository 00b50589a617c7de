package consumertest

import (
	"context"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
)

// Harness hands over a consumer and its broker.
type Harness struct {
	// New makes an empty log that nobody else uses, for the length of one case, with the group or
	// the durable that its consumers share.
	New func(t *testing.T) Place

	// Order is what a consumer promises of it.
	Order Order

	// Lanes is how many lanes the keys share where the promise is PerKey and a message also holds up
	// those keys that share its lane by chance. Zero where it holds up its own key alone.
	Lanes int

	// NotClean is in the error of a Run that had to leave something undone.
	NotClean error

	// Overtime is how much longer than the drain limit Run may take to return, whatever the
	// handlers and the broker do.
	Overtime time.Duration

	// Seen returns what a handler is given of a published message where that differs: headers
	// in another order, nil for what is empty. Nil where everything comes through as it is.
	Seen func(m Message) Message

	// Lacks holds a reason for each ability that the consumer or its broker does not have. The
	// cases that need it are skipped with that reason; one that is neither there nor declared
	// fails the exam.
	Lacks map[Ability]string

	// Grace is given to what should not happen, 250 ms when zero. It must be longer than it
	// takes until the broker has heard of an acknowledgement. One that is too short passes
	// consumers that it should not; it never fails others.
	Grace time.Duration

	// Around runs a case, in a synctest bubble for instance. Nil runs it as it is.
	Around func(t *testing.T, test func(t *testing.T))
}

// Order is what a consumer promises about the order of one log, where nothing crashes.
type Order uint8

const (
	// Unordered: a message that failed waits alone, and the others go on.
	Unordered Order = iota + 1
	// PerKey: messages of one key follow each other, and one that failed holds up its key alone.
	PerKey
	// InOrder: the messages follow each other, and one that failed holds up those behind it.
	InOrder
)

// Ability is something that not every consumer or broker can do.
type Ability string

const (
	// Keys: messages have keys.
	Keys Ability = "keys"
	// Batches: Settings.Batch is understood.
	Batches Ability = "batches"
	// Remaking: Place.Remake is there.
	Remaking Ability = "remaking"
	// Restarting: Place.Restart is there.
	Restarting Ability = "restarting"
	// Freezing: Consumer.Freeze and Consumer.Thaw are there.
	Freezing Ability = "freezing"
	// Killing: Consumer.Kill is there.
	Killing Ability = "killing"
)

// Message is what is published.
type Message struct {
	Key     []byte
	Headers []dedup.Header
	Body    []byte
}

// Place is the log of one case. Its functions end the case, through the t that New was
// given, on errors of the broker; they are called by the case's own goroutine only.
type Place struct {
	// Publish stores messages and returns when they are stored, one behind the other in one
	// partition. The messages of a case have different bodies, or none.
	Publish func(ms ...Message)

	// Left is how many stored messages would be delivered yet if all consumers died at this
	// moment: those behind the committed offset, or pending and unacknowledged.
	Left func() int

	// Open makes one more consumer, as another process would: with connections of its own,
	// which the harness closes when the case ends. It returns the constructor's error.
	Open func(p dedup.Processor, s Settings) (Consumer, error)

	// Remake deletes the log and makes it again, empty. No consumer runs meanwhile.
	Remake func()

	// Restart takes the broker down and brings it back with all that it had stored.
	Restart func()
}

// Settings are what a case asks of a consumer.
type Settings struct {
	Policy consumers.Policy
	// Drain is how long handlers may go on when Run is to end.
	Drain time.Duration
	// WithoutDeadLetters: the processor may be one that cannot bury.
	WithoutDeadLetters bool
	// Batch is how many messages make a batch, and Linger how long one that is not full waits;
	// there are no batches when it is zero.
	Batch  int
	Linger time.Duration
}

// Consumer is a consumer under examination.
type Consumer struct {
	// Run is the consumer's.
	Run func(ctx context.Context) error

	// Freeze makes the network between the consumer and the broker swallow everything, with all
	// connections open, until Thaw.
	Freeze, Thaw func()

	// Kill cuts the consumer off for good, as the end of its process would: the broker hears
	// nothing more of it, not even a farewell.
	Kill func()
}
