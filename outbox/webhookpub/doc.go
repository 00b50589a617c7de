// Package webhookpub sends outbox events as webhooks, signed as Standard Webhooks 1.0.0
// lays down. An event's Topic names the endpoint; an [Endpoints] says where that is and
// with which secrets to sign.
//
// # What it promises
//
// At least once. An event is confirmed when its endpoint has answered 200 to 299. The
// webhook-id is the event's ID on every attempt, the bytes of the body are those of the
// payload, and timestamp and signature are new each time. A timeout after the receiver did
// its work is normal, so receivers need the id; package webhooksub is such a receiver.
//
// One attempt, from looking up the name to the last byte read of the answer, takes at
// most the timeout ([WithTimeout], 15 seconds). One call of Publish takes at most a third
// more than that, however many events it has and however slow the endpoint is.
//
// Events with one endpoint and key are sent one after another. Endpoints do not wait for
// each other, and an endpoint that does not answer, or asks for a pause, gets no further
// attempt within the call.
//
// # What becomes of an event
//
//	200 to 299                                      confirmed
//	408, 429, 502, 503, 504                         unreached; Retry-After is passed on for 429 and 503
//	500 and what else is above it                   refused: the receiver has looked at the event and failed
//	no address, refused, reset, timeout, TLS error  unreached: it may have arrived
//	410, or the header webhook-delivery: disable    refused for good, [GoneError]
//	the header webhook-delivery: abort-message      refused for good
//	300 to 399: redirects are never followed        refused
//	anything else                                   refused
//	URL or address not allowed, endpoint unknown    refused for good, [ForbiddenError], [ErrNoEndpoint]
//
// # Where it connects to
//
// The URLs are those of your customers, so each is a way into your network. Every address
// of every connection is judged after its name was resolved and before it is dialled:
// loopback, private, link-local, shared, multicast, reserved and documentation ranges,
// every form of IPv4 inside IPv6, and addresses of clouds' own services are refused.
// Only https to port 443 is spoken unless an option says otherwise, certificates are
// always verified, and a proxy named by the environment is ignored, because behind one
// this package would see only the proxy's address.
//
// # What it does not do
//
// It keeps no schedule and no count of attempts: that is the relay's. It does not switch
// endpoints off: [WithObserver] tells you of each attempt, so that you can.
package webhookpub
