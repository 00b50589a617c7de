// Package dedup decides whether a message was already done, and makes its effect take
// place once.
//
// # What it promises
//
// For rows that a handler writes in PostgreSQL through the transaction it is given
// ([NewTx]): effectively once. The row that says "done" commits together with the
// handler's rows and its outbox rows, or none of them does. The handler function itself may
// run more than once (a conflict, a crash before the commit); only its effect is once.
//
// For everything else ([New], on a lease): at least once, one at a time.
//
// What leaves the database (Kafka, NATS, a webhook, a call to somebody) is at least once
// with a stable id, if it is written to an outbox in the same transaction.
//
// # The path of one message
//
//  1. A consumer makes a [Message] of what its broker delivered and calls a [Processor].
//  2. The key function finds the message's identity. There is no default: see [KeyFunc].
//  3. The guard opens a transaction and sets the mark first. Both travel in one round
//     trip, and with them the COMMIT of the message before, where there is one.
//  4. The unique index decides. Where a rival holds the same mark in an open
//     transaction, this one waits until that has ended.
//  5. Mark seen: a [Duplicate], nothing runs. Mark new: the handler runs, with that
//     transaction.
//  6. An error or a panic rolls everything back. Nil leads to COMMIT, under a deadline of
//     its own that the message's context cannot cut short.
//  7. The consumer acknowledges after the commit, and only then.
//
// The broker's own bookkeeping (offsets, acknowledgements, delivery counts, duplicate windows)
// is a hint about what to deliver. The row that committed with the effect is the truth.
//
// # What a crash costs
//
// The process may die at any instruction. What is found afterwards:
//
//	it died                          the database holds   the broker       then
//	message fetched                  nothing              delivers again   the handler runs
//	transaction begun                nothing              delivers again   the handler runs
//	marked                           nothing              delivers again   the handler runs
//	handler ran                      nothing              delivers again   the handler runs
//	outbox row written               nothing              delivers again   the handler runs
//	COMMIT sent, not received        nothing              delivers again   the handler runs
//	COMMIT received, not answered    mark and effect      delivers again   duplicate
//	committed, not acknowledged      mark and effect      delivers again   duplicate
//	event published, not marked sent mark and effect      –                published again under the same id
//
// Each line is a test that kills a process there; see the integration folder.
//
// # Which guard
//
//   - [NewTx]: the handler writes in the database that holds the marks. One statement at a time
//     (on a pgstore.Store), or queued, for fewer round trips (on its Queued view).
//   - [NewTxBatch]: the handler can write many messages with few statements. The fastest.
//   - [New]: the effect is elsewhere and can be repeated or refused by a fencing token.
package dedup
