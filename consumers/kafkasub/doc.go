// Package kafkasub hands the records of a Kafka consumer group to a [dedup.Processor] and commits
// the offset of what is settled, in that order.
//
// # Guarantee
//
// Every record is handed over at least once, in the order of its partition, or of its key with
// [WithConcurrency], and again until it is settled: applied, known as a duplicate, or buried. An
// offset is committed only when everything before it is settled. Together with a [dedup.TxGuard]
// that makes the handler's rows effectively once. The offset is a hint for where to begin; the mark
// or the position that was committed with the rows is the truth, and everything below relies on it.
//
// A crash at any moment costs redelivery of what was settled and not yet committed, by default up
// to a quarter of a second of it; with [WithConcurrency] also of what was settled behind a message
// that was not, up to [WithPrefetch].
//
// # How it works
//
// It is built on kafka.ConsumerGroup with one kafka.Reader per assigned partition, not on the
// Reader's own group mode, which commits the late offset of a former owner as if it were the
// present one's. Each partition has a lane, or n of them with WithConcurrency(n): one message
// after another, retries wait in memory and hold up that lane alone, lanes run at the same time. A
// lane uses one connection of the database, so the pool should have one for each lane of the
// partitions that a process may be assigned.
//
// Each broker is asked over connections of its own. One that accepts them and does not answer holds up
// the partitions that it leads, and all of them only while it coordinates the group.
//
//	the result of a message         what happens
//	settled                         its offset may be committed once all before it are, the next one runs
//	failed                          tried again after a delay, up to Policy.MaxAttempts; then buried
//	permanent, without a key,       buried at once
//	mismatched, late
//	conflict, busy, outage,         tried again without end and without using up an attempt
//	unknown outcome
//	store not set up, or cancelled  Run returns the error, the message stays uncommitted
//	though the consumer was not
//
// # Attempts and deaths
//
// Where the processor is a [dedup.Counter], attempts are counted in the store: they survive crashes
// and new owners. A new owner learns the number with its own first failure, so a handler may see
// Attempt 1 once more, unless the owner before it has died. Otherwise, and while the store cannot count,
// they are counted in memory, where they survive a rebalance that leaves the partition with this process.
//
// The store also knows whether the former owner of a partition has left it in order. If it has not,
// it may have died of one of the messages it had in hand. Then as many messages as it can have had
// are handled one at a time in the whole process, and that each one is begun is committed before. Any
// result takes that back, a message that is busy or meets an outage included: the process has survived it. One
// that was begun three times and nobody has come back from is buried before its fourth start. So a message that
// kills its process does so four times as a rule, the unexpected first time included, and its
// neighbours are not suspected with it. A start stays counted until the message is settled where the
// store cannot be reached from the result until the partition is given up, and where the handler
// ignores its cancelled context and is left behind. Until those messages are done the partition is slow:
// two more commits for each. An owner that leaves before they are done, and before the log is,
// leaves the next one to be careful as well.
//
// # Positions
//
// Where the processor is a [dedup.Fencer] whose store keeps positions, reading begins behind the
// last message that was applied, whatever the group has committed; the difference is logged and the
// position committed. So a group's offsets may expire, and a database may be restored from a
// backup: what it has forgotten is read again. Messages must come in order, so WithConcurrency is
// refused.
//
// Before anything is read, the record that was applied last is compared with the one in the log, and
// whenever reading breaks off, the record that was read last. Another record there, or a log that
// ends before it, is another log: [WithNewLog] decides. A log that has lost the record to
// retention or compaction cannot be compared; that is logged, and it goes on. Where the store has
// applied nothing while the group has committed offsets of records, the same policy decides, because
// the store may be a new one, or the group may have worked without positions before: then set the
// position with RestartFence, to the committed offset minus one.
//
// To handle a partition again on purpose, call RestartFence of the guard: a consumer at work notices
// with its next message, or within [WithSilence].
//
// # How long marks are kept
//
// Where the processor is a [dedup.Keeper] that does not keep marks for ever, Run compares that with
// retention.ms of each topic, and warns if records stay longer; see [RequireKeep].
//
// # Rebalance and shutdown
//
// When the group rebalances or the context of Run ends, nothing more is handed to the processor. What
// it has, which is a batch or about a tenth of a second's work of single messages per lane, may
// finish within the drain limit ([WithDrain]) and is then cancelled, which rolls it back. After that
// the settled offsets are committed, and then the partition goes to its next owner. Two owners at once
// must be expected all the same, after a pause of this process or of the network: the marks decide
// then, and a late commit of the former owner is refused by the coordinator, logged and forgotten. A
// handler that ignores its cancelled context is left behind and logged.
//
// [Consumer.Pause] stops handing over without giving anything up, and the prefetch bounds what is
// read meanwhile.
//
// # Settings that matter
//
//   - ID: the group. Two programs with one ID share the partitions. Several consumers in one process
//     are independent of each other.
//   - SessionTimeout and RebalanceTimeout bound the drain; a handler that may take long needs all
//     three longer. RebalanceTimeout is also how long the group may be away before [Consumer.Ready]
//     says so.
//   - StartOffset must be FirstOffset, the default, unless [AllowLastOffset].
//   - The broker's offsets.retention.minutes and the topic's retention should both be longer than the
//     longest outage of the consumer, and the marks should be kept longer than either.
//   - Dialer: TLS, SASL and resolver are used as they are, for the group, for reading and for the
//     questions that this package asks. Those need the rights to describe topics and, for
//     [RequireKeep], their settings.
//   - kafka-go 0.4.48 is the oldest that can join groups of Kafka 4.
//
// # What it reports
//
// With [WithLogger]: records that retention removed before they were read, with the offsets from and
// to; a log that was made again or has become shorter; a partition that is silent although it has
// records; a former owner that has not left in order; and every retry, refused commit and outage.
// [Consumer.Assigned] tells positions, lag, which partition is failing and when it got on last, which it
// does not behind a lane that hangs; [Consumer.Ready] whether the consumer is where it should be.
//
// # What it cannot promise
//
//   - Aborted transactions. Records of open transactions are not read, but kafka-go does not filter
//     those of aborted ones: they reach the handler like any others, whether the producer aborted on
//     purpose or has died. Markers of transactions are told from data for certain, by
//     asking the broker for their batch, which costs a request for each; they reach no handler
//     and count for the offset.
//   - Empty and absent values. kafka-go delivers both as nil, of keys and headers too, so a tombstone
//     looks like an empty body, and a record with an empty key like one that has none.
//   - Records without a timestamp get the beginning of 1970 as their Position.Time: their coordinates
//     do not tell them from the records of a topic that is made again.
//   - A topic that is deleted and made again is noticed if the consumer sees it missing, shorter, or
//     with another record at its position. If it is made again and grows past the committed offset
//     while no consumer runs, only a store that keeps positions can tell; without one the broker
//     must have dropped the offset, as Kafka does with the topic.
//   - If one of several topics is deleted, kafka-go assigns the partitions of none at the next
//     rebalance. Run logs it and waits, and the consumer is not ready.
//   - Order across keys, with WithConcurrency, and the order of records of one key over several
//     partitions, which a topic has whose number of partitions was raised.
//   - Ownership. There is no cooperative rebalancing, static membership or KIP-848 protocol in
//     kafka-go, and a handler that hangs keeps its partition until somebody looks at Assigned.
package kafkasub
