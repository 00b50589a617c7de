// Package kafkapub publishes outbox events to Kafka with kafka-go.
//
// # What it promises
//
// At least once, with the event's ID in the header "id" of every copy. An event counts as
// confirmed when all in-sync replicas have it, and never before. kafka-go has no idempotent
// producer, so an answer that gets lost makes a second record; whoever consumes collapses
// the two by the header, for instance with dedup.FromHeader("id").
//
// Events with one key go to one partition of their topic, in order: the one behind is not
// sent before the one in front is confirmed or refused together with it.
//
// # The Writer and its batches
//
// A kafka.Writer cuts what it is given into batches and goes on with the next batch of a
// partition when it has given up the one before. If the cut falls between two events of a
// key, the second can be written although the first never was. This package gives the
// Writer, topic by topic, no more at a time than fits into one batch, and waits for its
// answer; events that come in meanwhile go out together next. Inside one batch Kafka
// takes all or nothing. For this the Writer must be the publisher's alone: nobody else
// writes with it.
//
// Ending a context does not stop a kafka.Writer: it goes on trying in the background. So
// Publish waits for the Writer's own answer, up to its limits ([WithLimit], [WithGrace]).
// Handed an event whose old write is still running, it waits for that one and starts no
// second write beside it.
//
// # What becomes of an event
//
//	too large for the Writer or the broker         refused for good, alone
//	malformed for this topic (no key, timestamp)   refused for good, alone
//	topic's name or a header not valid             refused for good
//	topic missing, no leader, not authorised       unreached; other topics are not affected
//	timeout, connection lost                       unreached: it may be there
//
// # What it does not do
//
// No order between topics beyond that of a key, none over a change of the number of
// partitions, no transactions of Kafka's, no creation of topics.
package kafkapub
