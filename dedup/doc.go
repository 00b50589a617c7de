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
// # What a message can be besides new or done
//
//	outcome      what it is                                       what a consumer does
//	Parked       its ordering key waits for a person, and so does acknowledges; it lies behind the dead letter
//	             it, with its mark ([WithParking])
//	Mismatched   its key is that of another message, with other   buries it; both can be looked at
//	             content ([WithFingerprint])
//	Late         it is older than the marks that were removed,    buries it: quarantined, to be run or
//	             so it may have been done or not                  discarded by a person
//
// # How long marks are kept
//
// A guard is told how long. Removal (pgstore's purger) follows the time of the messages and not the
// clock: of each partition the newest message that was settled, of those the oldest, less the
// time to keep. So a consumer that was down for a month, or one partition of it, finds the
// marks of what it has not read. A duplicate that comes later than that after its first message
// is Late. Ids that carry a time (UUID version 7, ULID) are judged by it: whoever replays an archive of
// events older than the time to keep gets them quarantined.
//
// # Positions instead of marks
//
// A log that is read in order by one owner at a time needs no mark per message: one row per
// partition with the position of the last one applied, updated in the handler's transaction, says
// the same ([Fencer]; pgstore's Fenced view). It costs next to nothing in batches and never
// needs removal. It also is where to go on: after a restore of the database the consumer begins
// behind the position, whatever the broker thinks was done. A producer's retry has a position of
// its own, so where producers repeat themselves both are kept (pgstore's FencedMarks view).
//
// # Dead letters
//
// A message that is given up is committed with its mark and everything that is known of it. It can be
// looked at, run again (alone, with all of its ordering key, or as a range: [TxGuard].Replay,
// ReplayKey, ReplayAll) and discarded. It runs again in the transaction that removes the letter. Its
// mark stays either way, so a redelivery in the meantime is a duplicate.
//
// # Which guard
//
//   - [NewTx]: the handler writes in the database that holds the marks. One statement at a time
//     (on a pgstore.Store, or a sqlstore.Store for database/sql), or queued, for fewer round trips
//     (on pgstore's Queued view).
//   - [NewTxBatch]: the handler can write many messages with few statements. The fastest.
//   - [New]: the effect is elsewhere and can be repeated or refused by a fencing token.
package dedup
