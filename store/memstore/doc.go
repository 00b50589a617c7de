// Package memstore keeps everything in the memory of one process. It is for examples,
// tests and development on one node, and it behaves as the database would: a rival of an
// open transaction waits, a deadlock is found, a handler that swallowed an error cannot
// commit.
//
// # Guarantee
//
// Effectively once for what a handler writes through the [Tx] it is given, for as long as
// the process lives. The marks, positions, rows, dead letters and outbox events of one transaction
// become visible together or not at all. A process that ends, however it ends, forgets
// all of it together: nothing is ever half there, and nothing survives.
//
// Leases exclude each other and replay results within the one [Store]. Two processes, or
// two stores in one process, share nothing.
//
// # Expiry
//
// A lease ends by its time, a result when its keep time is over; both count as gone from
// that moment on and are removed when the key is touched or when a later claim
// passes by. A lease that ran out is remembered for its keep time, so that whoever claims
// the key next is told that it takes over. No goroutine runs. The number of leases is
// bounded ([WithMaxLeases]); at the bound new keys are refused with [ErrFull], because
// making room would mean forgetting work that was done.
//
// Relays hold the slots of the outbox by leases of the same kind; one that runs out is taken
// by another relay when that one next looks.
//
// Marks are kept for as long as their consumer asked for, in the time of its messages, and go when
// [Store.Purge] is called; a message that is older than what went is late. Rows and positions stay as
// long as the Store, letters until they are run again or discarded, events until they are sent or
// discarded.
//
// # Clock
//
// Package time of the process, monotonic, so that a change of the wall clock moves no
// lease. Inside of testing/synctest it is the bubble's.
//
// # Schema
//
// None. [New] returns an empty store that is ready for use.
//
// # What it does not do
//
// It is not durable and not shared. It has no savepoints, no isolation above read
// committed and no query: the rows of [Tx] are named numbers, enough to show that an
// effect took place once. It removes old marks when it is told to ([Store.Purge]) and not by
// itself. It bounds the number of leases and not their bytes, and neither of marks, letters and
// events, so it is not for a service that runs for months.
package memstore
