// Package outbox carries events out of the database. A [Writer] stores them in the
// transaction of the business change; a [Relay] hands them to the [Publisher] of their
// destination after the commit, and forgets them once the destination has confirmed them.
//
// # What is promised
//
// An event whose transaction committed is published at least once, and with the same id
// on every copy, so receivers can collapse copies. An event whose transaction did not
// commit is never published. Copies come from crashes between the destination's answer and
// the note of it, and from answers that were lost.
//
// Events of one destination and key arrive in the order in which they were written, as far
// as their writers serialise on the key (by a lock on the entity's row, for example).
// That holds across failures: an event that has to wait makes the later ones of its key wait
// behind it. There is no order between keys, and none for events without a key.
//
// # What a crash costs
//
//	the process dies               what is there afterwards
//	before the commit              nothing: neither the change nor its events
//	after the commit               the events; the next relay, or this one again, sends them
//	while events are being sent    the events; those that had arrived are sent again
//	after the answer, before the   the events; they are sent again
//	note of it
//	every time it sends a certain  the event, parked: it is found out and set aside before it
//	event                          kills every relay in turn
//
// # Failures
//
// Publishers say whose fault a failure is. A topic that cannot be reached costs its events no
// attempt: they are set aside, one of them is tried again with growing pauses, and
// when it passes the others follow in order. An event that its destination refuses is tried
// again with growing pauses and parked after its last attempt, its key waiting behind it,
// until somebody retries or discards it. Everything else flows on.
//
// # Relays
//
// Any number of relays share the work. The rows are divided into [store.Slots] slots by
// destination and key; a relay holds its share of them by leases on the database's clock,
// with fencing tokens, so that one that was asleep cannot undo what its successor did.
package outbox
