// Package standardwebhooks signs and verifies webhooks as Standard Webhooks 1.0.0 lays
// down (https://www.standardwebhooks.com). It is the one thing that the sender and the
// receiver must agree on to the byte, so both import it: it is a leaf that knows the
// standard library alone, no HTTP client, no handler and no other package of this module.
//
// What is signed is the id, the timestamp and the body as it travels, joined by full stops.
// The id is the same on every attempt; the timestamp is that of the attempt.
//
//	key                     signature   signs    verifies
//	whsec_ and base64       v1          yes      yes       HMAC-SHA256, 24 to 64 bytes
//	whsk_ and base64        v1a         yes      no        Ed25519, the private half
//	whpk_ and base64        v1a         no       yes       Ed25519, the public half
//
// A valid signature says who sent the message and that nobody changed it. Within the
// tolerance for clocks it does not say that the message is new: that is for the mark
// under its id to say.
package standardwebhooks
