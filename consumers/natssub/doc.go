// Package natssub consumes a JetStream stream through a durable pull consumer and hands its
// messages to a processor, usually a guard of package dedup, which gives them their effect
// once.
//
//	c, err := natssub.New(js, "ORDERS", jetstream.ConsumerConfig{
//		Durable: "billing",
//		AckWait: 10 * time.Second,
//	}, guard)
//	if err != nil {
//		return err
//	}
//	return c.Run(ctx)
//
// # One message
//
// It is fetched when there is room for it in hand, kept by heartbeats at a third of the ack
// wait from its arrival on, processed, and then acknowledged; the acknowledgement is
// confirmed by the server, once for all that were handled together. One that failed is given back with a
// delay of ours, not the server's, and others go on meanwhile. One that did not settle for another reason,
// because somebody else has its key for instance, waits in hand for its next try, and others go on as well.
// One that is given up is committed as a dead letter first and then terminated, so that the server's
// MSG_TERMINATED advisory carries the reason.
//
//	the process is killed                what happens
//	with the message in hand             it is delivered again when the ack wait ends
//	before the commit                    the same; nothing had been done
//	after the commit, before the ack     the same; its mark makes it a duplicate, which is acknowledged
//	after the dead letter's commit       the same
//
// # What is promised
//
// A message is acknowledged or terminated only after the processor has settled it. What the processor
// refuses (a key known with other content, a message older than the marks) is buried. With a
// guard on transactions its effect is effectively once; everything the server does on its
// side (redelivery, counts, the duplicate window, the confirmation itself) is a hint that
// nothing depends on. A message held in two processes at a time is normal: the mark decides.
//
// A handler that hangs keeps its message and its heartbeats go on: give what it calls
// deadlines, and watch State.HandlingSince.
//
// Runs survive restarts of the server and outages of the store. In an outage messages stay
// in hand and are tried again there; it spends no attempts. When Run ends it gives back
// what has not begun, so others get it at once, and waits for what has.
//
// # Order
//
// There is none between messages by default. [WithConcurrency](1) follows the stream as long as
// nothing fails or is delivered again. [WithOrderBy] holds behind a failed message those that have
// its key, and [WithOrder] holds everything, in this process. Over crashes, restarts and several
// processes only the server can keep order: MaxAckPending 1, at the price of a round trip for each
// message. A guard with a position fence is refused: it needs a log that is read in order, and
// JetStream delivers again whenever it must.
//
// # Attempts
//
// Results that were the message's own fault are counted: by the processor's store where it counts
// them ([dedup.Counter]), so that they outlive a process, and otherwise in this process, after whose
// end a message has all its attempts again. The server's count of deliveries grows with every
// shutdown and lost connection, so it does not do.
//
// A message that ends the process leaves no result. So one of which two deliveries or more have vanished
// is a suspect: suspects are tried one at a time, alone. Where the processor counts, a suspect's start is
// committed before it runs, and whatever comes of it takes that back; one that was begun three times, and
// nobody came back from it, is buried before it runs again. So deployments and outages bury nothing there.
// Without a processor that counts, the server's count is the only evidence, and one with as many vanished
// deliveries as the policy has attempts (at least 5) is buried.
//
// # Watching it
//
// [Consumer.Ready] is for the probe of a platform, [Consumer.State] for lag and alarms:
//
//   - on the age of State.LastProgress, which catches whatever hangs altogether;
//   - on the age of State.HandlingSince, beyond what any handler may take, which catches one that hangs
//     beside others that go on;
//   - on Delivered near DeliveredLimit, which catches messages that wait for a retry until the server
//     delivers nothing more;
//   - on an InHand that stays at WithPrefetch with little or nothing in Handling: everything waits
//     for its next try.
//
// [Consumer.Pause] stops the handling without ending Run.
//
// At its beginning Run reports what nobody would see: a stream that counts from its beginning again,
// settings of the durable that lose messages or slow them down, and a stream that keeps its messages
// for longer than the marks are kept, of which [RequireKeep] makes an error. Marks have to outlive
// everything that may deliver a message again: the stream's MaxAge, dead letters that are run
// again, a stream that is restored from a backup.
//
// # The connection
//
// It is the caller's: address, credentials, TLS, name, handlers of its events and JetStream domain are
// set there, and several consumers of one or of several durables may share it. Connect with
// nats.MaxReconnects(-1), or an outage of two minutes closes it for good and ends Run. Close it after
// Run has returned; its Drain ends what Run has not confirmed yet and does not wait, so it is nothing to
// begin a shutdown with. A client needs to publish to the API subjects of its durable, and to that of
// STREAM.INFO for the reports above, without which they are left out.
//
// # Settings of the durable that matter
//
//   - AckWait: with heartbeats it only decides how soon the messages of a process that was killed
//     are delivered again. 10 s is good; below a second a busy machine is taken for a dead one.
//   - MaxDeliver: leave it unlimited. Past it the server gives a message up without telling, and
//     crashes and shutdowns count. At or below the policy's attempts it is refused; at the last
//     delivery a message is held in hand instead of being given back.
//   - BackOff: leave it out. It replaces AckWait, does not apply to messages that are given back
//     and lengthens the delays of those that do not want it.
//   - MaxAckPending (1000): messages that wait for a retry count. When they reach it, delivery
//     stops without a word: watch [State], and keep it well above WithPrefetch.
//   - FilterSubjects: several in one durable are fine. To change them is to change which messages are
//     ever delivered, also of those that are stored already.
//   - AckPolicy: explicit. None loses what is in hand, all acknowledges what is not done; both
//     are refused, and so are ordered and other ephemeral consumers, whose position ends with them.
//   - InactiveThreshold: the server deletes even a durable after it. One that is made again starts
//     where DeliverPolicy says: marks absorb what comes twice, and nothing brings back a gap.
//
// # Identity
//
// [dedup.FromCoordinates] uses stream, stream sequence and the time of storing, so a stream
// that is deleted and made again is another stream. A publisher's retry past the duplicate window,
// and a sourced or mirrored copy, has coordinates of its own: take a header that the
// publisher sets. Header names are compared byte by byte, "Event-Id" is not "event-id".
// Nats-Msg-Id is an identity only where publishers never use one again.
//
// # What is not promised
//
// Core NATS has no acknowledgement, redelivery or place in a log, so effectively once cannot be
// built on it, and this package has nothing for it. A server that loses power may lose
// messages that it had confirmed to their publishers, unless its sync_interval is "always". An
// acknowledged message is gone from a work queue and cannot be replayed. Terminating with a
// reason needs a server of 2.10.4; older ones deliver a buried message once more and then
// hear that it is done.
package natssub
