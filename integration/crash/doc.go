// Package crash kills processes. A child consumes, or relays, and dies by SIGKILL at a
// chosen point of its work; another one takes over; in the end every event must have had
// one effect, and every outbox event one effect at its receiver.
//
// The points are the lines of the crash table in the documentation of package dedup.
package crash
