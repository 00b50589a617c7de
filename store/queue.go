package store

import (
	"context"
	"time"
)

// Queue is the outbox as relays see it. Any number of relays, in any number of processes,
// share it: each holds some of the [Slots], and an event belongs to whoever holds its slot.
//
// The store's clock alone decides who holds what. Every change of holder raises the slot's
// fencing token, and whatever a member writes is compared with the token in the same
// statement, so a member that was replaced while it slept changes nothing.
type Queue interface {
	// Join makes a member of the given name, unique among all processes and runs. It does
	// no I/O and holds nothing yet. Lease is how long slots stay held without a Hold.
	Join(relay string, lease time.Duration) Member
	// Fault says whose fault an error is that came from this queue.
	Fault(err error) Fault
}

// Member is one relay's part in a [Queue]. It is used by one goroutine at a time and does
// nothing by itself.
//
// A member remembers the rows that it has given out and not been told the end of: they are
// in the relay's hands and are not given out again, whatever is read. A member
// that is thrown away gives them up; whoever holds the slot next reads them again.
type Member interface {
	// Hold says that the relay lives, prolongs what it holds, and takes slots that are free
	// or whose holder is dead, up to its fair share: the slots divided by the living
	// members, rounded up. A relay calls it several times per lease. What it held may be
	// lost for all that; rows of lost slots are forgotten.
	Hold(ctx context.Context) (Holding, error)

	// Next settles rows and then reads more, in one round trip where the store can. It is
	// all or nothing: after an error nothing is known to have been settled, nothing was
	// given out, and the same settlement may be given again any number of times.
	//
	// Settlements of rows whose slot is no longer held are dropped; the slots are returned
	// in Lost, and their rows forgotten.
	Next(ctx context.Context, done Settlement, want Want) (Batch, error)

	// Backlog sums up what waits in held slots, for a relay that has just gained them.
	Backlog(ctx context.Context, slots []int16) ([]Backlog, error)

	// Release gives slots back in good order: none of their rows is in the relay's hands any
	// more. The next holder need not suspect them.
	Release(ctx context.Context, slots ...int16) error

	// Leave releases nothing, but takes the relay off the list of the living, so that the
	// others reckon their shares without it. The member is not used afterwards.
	Leave(ctx context.Context) error
}

// Holding is what a member holds after a [Member].Hold.
type Holding struct {
	// Until is when the slots may fall to somebody else, on this process's clock and to
	// the safe side.
	Until time.Time
	// Gained are slots that were not held before.
	Gained []Gain
	// Lost are slots that are not held any more.
	Lost []int16
	// Changed are slots in which somebody else, such as an operator, has changed what waits:
	// ask for their Backlog again.
	Changed []int16
	// Surplus is how many slots are held above the fair share: finish and release as many.
	Surplus int
}

// Gain is a slot that a member has taken.
type Gain struct {
	Slot int16
	// Suspect says that the last holder did not release it: it may have died of a row.
	Suspect bool
}

// RowState is where a row of the outbox stands.
type RowState uint8

const (
	// Flowing: written and not looked at yet.
	Flowing RowState = iota + 1
	// Retrying: refused, and tried again when its time has come. With a key it is the key's
	// first row, as a parked one is.
	Retrying
	// Behind: an earlier row of its key waits.
	Behind
	// Held: its topic cannot be reached, or is slower than its events come.
	Held
	// Parked: given up until a person retries or discards it. Its key waits behind it.
	Parked
)

func (s RowState) String() string {
	switch s {
	case Flowing:
		return "flowing"
	case Retrying:
		return "retry"
	case Behind:
		return "behind"
	case Held:
		return "held"
	case Parked:
		return "parked"
	default:
		return "no state"
	}
}

// Row is an event with its place in the outbox. Everything in it but State, Attempts and
// Starts stays unchanged, also the bytes, for as long as anybody reads them.
type Row struct {
	Event
	Slot int16
	// Seq grows in the order in which events were written. Within a key whose writers
	// serialise on it, that is the order of their commits.
	Seq   int64
	State RowState
	// Attempts is how often the destination has refused it.
	Attempts int
	// Starts is how often it was begun by a relay that was not heard of again.
	Starts int
	// WrittenAt is when its transaction began.
	WrittenAt time.Time
}

// Settlement is what became of rows that a member gave out.
type Settlement struct {
	// Sent rows are confirmed by their destination and are removed.
	Sent []*Row
	// Wait are rows that go, or go back, to the waiting ones.
	Wait []Wait
	// Back are rows of which nothing became: they are as they were and are given out again.
	Back []*Row
}

// Empty says that there is nothing to settle.
func (s *Settlement) Empty() bool { return len(s.Sent)+len(s.Wait)+len(s.Back) == 0 }

// Wait is a row that waits, and how.
type Wait struct {
	Row *Row
	// State is any but Flowing.
	State RowState
	// Attempts and Starts are stored with it.
	Attempts, Starts int
	// After is how long a Retrying row waits, from now by the store's clock.
	After time.Duration
	// Reason is for the person who looks, as plain text.
	Reason string
	// Keep leaves the row in the relay's hands: it is about to be sent, and this only notes
	// its start. Once settled, the Row's own State, Attempts and Starts are the new ones.
	Keep bool
}

// Want is what a relay has room for. The zero value asks for nothing.
type Want struct {
	// Slots are the held slots to read from.
	Slots []int16
	// Flow is how many flowing rows are wanted, in fair turns over the slots.
	Flow int
	// Due is how many retries are wanted whose time has come, by the store's clock.
	Due int
	// Held are topics of which held rows are wanted.
	Held []WantHeld
	// Keys are keys of which waiting rows are wanted, in whatever state.
	Keys []WantKey
}

// WantHeld asks for held rows of a topic: of each slot the first ones, in order.
type WantHeld struct {
	Destination, Topic string
	Slots              []int16
	// Each is the most per slot.
	Each int
}

// WantKey asks for the first waiting rows of a key, in order.
type WantKey struct {
	Slot        int16
	Destination string
	// Topic limits the rows to one topic, where it is not empty.
	Topic string
	Key   []byte
	Most  int
}

// Batch is what a member gives out. No row is in it twice.
type Batch struct {
	// Flow are flowing rows, of each slot in order. For writers that serialise on a key it
	// also holds over time: when a row is given out, every row that was written before it
	// under the same key and is still flowing was given out before. Rows whose transaction
	// commits late, behind higher numbers, are found all the same: at once where that order
	// demands it, else within seconds.
	Flow []*Row
	// More says that further flowing rows may be there.
	More bool
	// Due are retries, the longest due first; Held of each topic and slot in order; Keys of
	// each key in order. A row that is among Keys is not among the others.
	Due, Held, Keys []*Row
	// Lost are slots that turned out to be held by somebody else.
	Lost []int16
}

// Backlog sums up the waiting rows of a slot that have destination, topic and key in common.
type Backlog struct {
	Slot               int16
	Destination, Topic string
	// Key is nil for all rows without one.
	Key []byte
	// How many wait in which state.
	Retrying, Behind, Held, Parked int
}

// WaitingEvent is a waiting row as a person sees it.
type WaitingEvent struct {
	Row
	Reason string
	// Due is when a Retrying row is tried again.
	Due time.Time
	// Since is when it began to wait, Changed when its state last changed.
	Since, Changed time.Time
}

// WaitingFilter chooses waiting events; every field that is set must fit.
type WaitingFilter struct {
	IDs                []ID
	Destination, Topic string
	// Key fits events of that key where it is not nil.
	Key []byte
	// State fits one state where it is not zero.
	State RowState
	// ChangedSince fits events whose state changed at that time or later.
	ChangedSince time.Time
}

// OutboxAdmin is the outbox as operators see it. Relays notice what is changed here within
// seconds.
type OutboxAdmin interface {
	// ListWaiting returns at most limit events that fit and whose Seq is above after, in the
	// order in which they were written.
	ListWaiting(ctx context.Context, f WaitingFilter, after int64, limit int) ([]WaitingEvent, error)
	// RetryWaiting makes parked and retrying events that fit due at once, with all their
	// attempts before them, the oldest first and at most limit, and returns how many.
	RetryWaiting(ctx context.Context, f WaitingFilter, limit int) (int, error)
	// DiscardParked removes parked events that fit for good, the oldest first and at most
	// limit, and returns how many. What waits behind them goes on. A filter that sets nothing
	// but a state is an error: all of them is not said by leaving out which.
	DiscardParked(ctx context.Context, f WaitingFilter, limit int) (int, error)
	// OutboxStats counts what is there.
	OutboxStats(ctx context.Context) (OutboxStats, error)
}

// OutboxStats are counts for alarms and dashboards.
type OutboxStats struct {
	// Flowing events and the age of the oldest.
	Flowing int64
	Oldest  time.Duration
	// Waiting events by state, and the age of the oldest of all.
	Retrying, Behind, Held, Parked int64
	OldestWaiting                  time.Duration
	// Relays that live, and slots that nobody holds.
	Relays, FreeSlots int
}
