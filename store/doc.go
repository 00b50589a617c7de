// Package store holds the contracts of what remembers. Nothing here touches a
// database: the package imports the standard library alone, and everything else
// in the house points to it.
//
// There are two promises, and they are two interfaces because no single one can
// be kept by every store:
//
//   - [Marks] share the caller's transaction. The row that says "this message was
//     done" commits together with what the handler wrote, or not at all: effectively
//     once. Only a store that owns the handler's data can offer it.
//   - [Leases] give one holder at a time the right to work on a key and keep the
//     answer for whoever asks again. Every store can offer it; what the holder did
//     elsewhere before it died is outside of its reach.
//
// Beside them stand the outbox ([Appender] inside the transaction, [Queue] for the
// relay) and the dead letters ([Burier], [DeadLetters]).
//
// Whoever writes a store proves it with package storetest.
package store
