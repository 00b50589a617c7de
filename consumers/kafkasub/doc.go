// Package kafkasub hands the records of a Kafka consumer group to a [dedup.Processor] and commits
// the offset of what is settled, in that order.
//
// # Guarantee
//
// Every record is handed over at least once, in the order of its partition, and again until it
// is settled: applied, known as a duplicate, or buried. An offset is committed only when
// everything before it is settled. Together with a [dedup.TxGuard] that makes the handler's rows
// effectively once. The offset is a hint for where to begin; the mark that was committed with
// the rows is the truth, and everything below relies on it.
//
// A crash at any moment costs redelivery of what was settled and not yet committed, by default up
// to a quarter of a second of it.
//
// # How it works
//
// It is built on kafka.ConsumerGroup with one kafka.Reader per assigned partition, not on the
// Reader's own group mode, which commits the late offset of a former owner as if it were the
// present one's. Each partition is a lane: one message after another, retries wait in memory and
// hold up that lane alone, lanes run at the same time. A lane uses one connection of the
// database, so the pool should have one per partition that a process may be assigned.
//
//	the result of a message         what happens
//	settled                         its offset may be committed, the next one runs
//	failed                          tried again after a delay, up to Policy.MaxAttempts; then buried
//	permanent, or without a key     buried at once
//	conflict, busy, outage,         tried again without end and without using up an attempt
//	unknown outcome
//	store not set up, or cancelled  Run returns the error, the message stays uncommitted
//	though the consumer was not
//
// Attempts are counted in memory. They survive a rebalance that leaves the partition with this
// process, and begin anew after a crash or with another owner.
//
// # Rebalance and shutdown
//
// When the group rebalances or the context of Run ends, nothing more is handed to the processor. What
// it has, which is a batch or about a tenth of a second's work of single messages, may finish within
// the drain limit ([WithDrain]) and is then cancelled, which rolls it back. After that the settled offsets
// are committed, and then the partition goes to its next owner. Two owners at once must be
// expected all the same, after a pause of this process or of the network: the marks decide then,
// and a late commit of the former owner is refused by the coordinator, logged and forgotten. A
// handler that ignores its cancelled context is left behind and logged.
//
// # Settings that matter
//
//   - ID: the group. Two programs with one ID share the partitions.
//   - SessionTimeout and RebalanceTimeout bound the drain; a handler that may take long needs all
//     three longer.
//   - StartOffset must be FirstOffset, the default, unless [AllowLastOffset].
//   - The broker's offsets.retention.minutes and the topic's retention should both be longer than the
//     longest outage of the consumer, and the marks should be kept longer than either.
//   - kafka-go 0.4.48 is the oldest that can join groups of Kafka 4.
//
// # What it reports
//
// With [WithLogger]: records that retention removed before they were read, with the offsets from and
// to; a log that was made again or has become shorter; a partition that is silent although it has
// records; and every retry, refused commit and outage. [Consumer.Assigned] tells positions, lag and
// which message is failing.
//
// # What it cannot promise
//
//   - Aborted transactions. Records of open transactions are not read, but kafka-go does not filter
//     those of aborted ones: they reach the handler like any others, whether the producer aborted on
//     purpose or has died. Markers of transactions are told from data for certain, by
//     asking the broker for their batch, which costs a request for each; they reach no handler
//     and count for the offset.
//   - Empty and absent values. kafka-go delivers both as nil, of keys and headers too, so a tombstone
//     looks like an empty body.
//   - Records without a timestamp get the beginning of 1970 as their Position.Time: their coordinates
//     do not tell them from the records of a topic that is made again.
//   - A topic that is deleted and made again is noticed if the consumer sees it missing, shorter, or
//     with another record at its position, and is then read from its start. If it is made again
//     and grows past the committed offset while no consumer runs, the broker must have dropped the
//     offset, as Kafka does with the topic.
//   - If one of several topics is deleted, kafka-go assigns the partitions of none at the next
//     rebalance. Run logs it and waits.
//   - Ownership. There is no cooperative rebalancing, static membership or KIP-848 protocol in
//     kafka-go, and a handler that hangs keeps its partition until somebody looks at Assigned.
package kafkasub
