// Package webhooksub receives webhooks: an http.Handler that verifies a request, hands it
// to a [dedup.Processor] and answers when the end is known.
//
// # What it promises
//
// With a guard from dedup.NewTx: effectively once for what its handler writes through the
// transaction it is given. The answer follows the commit, never precedes it. A crash in between,
// a lost answer and a sender that gives up waiting all lead to another delivery, which
// finds the mark.
//
// # The path of one request
//
//  1. POST only. The body is read up to a limit of size ([WithMaxBody]) and of time
//     ([WithReadLimit]), whatever Content-Length says.
//
//  2. The [Verifier] judges the bytes as they came, before anything parses them. One
//     that does not pass is answered 401, without a reason.
//
//  3. A [dedup.Message] with the same bytes goes to the processor. Its context ends at
//     the limit of [WithProcessLimit] and not when the sender hangs up: work that is slower
//     than the sender's patience would otherwise be rolled back each time, for ever.
//
//  4. The answer follows from the outcome.
//
// # Answers
//
//	applied                                       200
//	duplicate                                     200 with the header [HeaderDuplicate]
//	buried: dead letter and mark are committed    200, since the sender can do nothing more
//	an error that says that no attempt can help,  422 and webhook-delivery: abort-message:
//	with nowhere to bury the message              the message stays with the sender
//	any other error of the handler                500, with Retry-After if the handler asked for it
//	the same message is being handled, unknown    503 and Retry-After
//	outcome, store not reachable or not set up,
//	limit of time passed
//
// A duplicate that arrives while the first is being handled waits for it in the store, up to
// the store's limit, and is never answered 2xx before the first has committed.
//
// How often a message is tried, and what happens after the last time, is the sender's
// business: over HTTP nobody says which attempt this is, so nothing but an error that is
// permanent is buried here.
//
// # The message
//
//	Position.Broker  "webhook"
//	Position.Log     the source's name
//	Topic            the event's type: the member "type" of a JSON body, unless [WithType]
//	                 finds it elsewhere; empty if there is none
//	Headers          those of the request with their names in lower case, in the order of the
//	                 names, without Authorization, Cookie and Proxy-Authorization; "webhook-id"
//	                 is the id that was verified, whatever header it came in
//	Body             the bytes of the body; not nil
//	Attempt          1
//
// It has no time and no offset: what a request says of those changes with each attempt.
// Use [ID] as the guard's key function; it takes the verified id and the source.
//
// # What it does not do
//
// It does not answer first and work later: where a sender's patience is shorter than the
// work, let the handler write the event to an outbox. A type that the handler does not
// know is the handler's to pass over, by returning nil. It limits neither the number of
// requests at a time nor their rate; marks must be kept longer than the sender tries, which
// for the standard's own schedule is more than three days.
package webhooksub
