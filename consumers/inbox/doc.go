// Package inbox is the store-first mode of a consumer: the consumer's transaction only keeps the
// message, with its mark, and the work is done later, out of the database.
//
// # When to use it
//
//   - The work outlives a session with the broker: a Kafka session timeout, an ack wait that no
//     heartbeat prolongs, the patience of a webhook's sender.
//   - One slow or failing message must not hold up what comes behind it in its partition.
//   - Attempts, pauses and what is given up must survive restarts and rebalances.
//
// Otherwise do the work in the consumer's own transaction: it is one transaction instead of two, has
// no backlog of its own, and is done when the broker's lag is zero. As a rule of thumb, work
// of less than a second belongs there.
//
// # What is promised
//
// A message that the intake has settled is kept: its mark and its bytes are committed, and
// it may be acknowledged. Its work is effectively once, for what the handler writes through
// its transaction: the relay hands it over at least once, and the mark of the work's own
// guard commits with the work. Messages of one ordering key ([WithOrder], by default the
// broker's key) are worked on one after another, in the order in which they were kept, over
// failures, restarts and any number of processes. There is no order between keys and none
// for messages without a key.
//
// The queue is that of package outbox, with its relays, slots, leases and fencing tokens; a kept
// message is an event whose [Publisher] does work instead of sending.
//
//	the process dies                        what happens
//	before the commit of what is kept       the broker delivers again, and it is kept
//	after it, before the acknowledgement    the broker delivers again; the mark makes it a duplicate
//	before the work, or in the middle of    it is rolled back; the next relay does it
//	it
//	after the work's commit, before the     the next relay hands it over again; the mark makes it a
//	relay has noted it                      duplicate
//	every time it works on a certain        that message, parked: it is found out and set aside
//	message                                 before it kills every process in turn
//
// # Setting it up
//
// Keep the messages in a schema of its own, in the same database:
//
//	err := pgstore.Migrate(ctx, pool, pgstore.WithSchema("semel_inbox"))
//	box, err := pgstore.New(pool, pgstore.WithSchema("semel_inbox"))
//	work, err := dedup.NewTx(store, "billing", dedup.FromHeader("payment-id"), 90*24*time.Hour, handler)
//	in, err := inbox.New(box, "billing", dedup.FromHeader("payment-id"), 30*24*time.Hour, work,
//		inbox.WithConcurrency(8), inbox.WithLimit(10*time.Minute))
//	consumer, err := kafkasub.New(group, in.Intake())
//	// Beside each other, in one process or in two kinds of them:
//	err = consumer.Run(ctx)
//	err = in.Run(ctx)
//
// Two numbers need thought. The pool must have a connection for each concurrent work, one for each lane
// of the consumer and one for the relay. And the work's marks must be kept longer than a message
// may wait, parked or not, on top of what the broker may deliver again: one that comes later
// is [dedup.Late], is parked as that, and never run.
//
// # One queue or several
//
// Relays that share a queue must all know all of its destinations: an event whose
// destination the holder of its slot does not know waits until one does. [New] has a relay of its
// own with one destination, so it wants a schema of its own. That also lets it have its own calls,
// batches, drain and publish timeout, which an outbox that sends to a broker wants small.
// The price is a second set of small tables and one more connection.
//
// The other way is one relay for everything in a schema, of the parts:
//
//	writer, err := inbox.NewWriter(store, "billing", inbox.WithWake(relay.Wake))
//	intake, err := dedup.NewTxBatch(store, "billing intake", key, keep, writer.KeepAllTx)
//	publisher, err := inbox.NewPublisher(work, inbox.WithLimit(time.Minute))
//	relay, err := outbox.NewRelay(store, map[string]outbox.Publisher{"billing": publisher, "kafka": kafka},
//		outbox.WithPublishTimeout(2*time.Minute))
//
// Then outbox.WithCalls bounds every destination alike; the publish timeout must be above the limit of the
// work by ten seconds and more, and is that of the broker, too; and the two guards need different
// names, or no work is ever done, because the intake's mark makes each message a duplicate.
//
// # How work gets on
//
// A relay divides kept messages by ordering key into 256 lanes. It works on as many at once as
// [WithConcurrency] says, and on each lane one message after another, so work that takes long or hangs
// holds up its own key and the few that share its lane. Leases are renewed while work runs, however
// long it is. Work past its limit ([WithLimit]) is rolled back and has failed an attempt; what
// happens where the relay's publish timeout is the shorter one is told at [Publisher]. A stop
// waits for the drain limit (outbox.WithDrain) and then rolls back what is left, for the next process.
//
// What uses up its attempts, or is refused for good, is parked in the queue with its key waiting
// behind it. Look at it, retry or discard it through [store.OutboxAdmin]; [Message] shows what an event
// keeps. A person who discards a message gives it up: the intake's mark stays.
//
// A backlog is rows in PostgreSQL: watch store.OutboxStats, whose Oldest and OldestWaiting are the lag
// that the broker does not show any more, and give the table room for the longest pause of
// the work. Where a lane has more than about a hundred messages waiting, the surplus is moved to the
// waiting rows, which costs one more write for each.
//
// # What it does not do
//
// It does not keep the order of a partition, so the work's guard cannot have a position fence. (The
// intake's can, and then keeps no mark per message.) It does not schedule: a message is due when it is
// kept. Effects outside the work's transaction are at least once, as everywhere.
//
// What was cancelled is rolled back at the latest when the server notices. A statement that is running there
// when its client is gone may go on until it ends, with its locks: PostgreSQL's statement_timeout and
// client_connection_check_interval bound that.
package inbox
