// Package outboxtest examines implementations of [store.Queue] and helps to test relays and
// publishers.
package outboxtest
