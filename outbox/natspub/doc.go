// Package natspub publishes outbox events to JetStream.
//
// # What it promises
//
// At least once, with the event's ID in the header "id" of every copy. An event counts as
// confirmed when a stream has acknowledged it, never on the strength of having been
// handed to the connection: core NATS reports success where nobody listens.
//
// Every copy also has the header Nats-Msg-Id, made of the event's ID and its destination, by
// which a stream drops copies within its duplicate window. The window is two minutes
// unless the stream says otherwise, counts from the first copy and may be forgotten by a
// restart, so it saves traffic and proves nothing. Whoever consumes collapses copies for
// good, for instance with dedup.FromHeader("id"). For the same reason an event that was
// acknowledged and then purged from the stream cannot be sent again under its ID while
// the window lasts.
//
// # Order
//
// Events with one key are sent one after another, each after the acknowledgement of the
// one before it. Events of different keys are under way at the same time, as many as
// [WithWindow] allows. Where keys matter less than speed, leave Key nil.
//
// # What becomes of an event
//
//	above the server's or the stream's limit of size     refused for good
//	subject or header that NATS cannot carry             refused for good
//	no stream for the subject, another one than expected unreached; other subjects are not affected
//	stream full, not enough resources                    unreached
//	no acknowledgement in time, not connected            unreached: it may be there
//
// # What it does not do
//
// NATS cannot tell a nil payload from an empty one. It creates no streams and does not
// close the connection.
package natspub
