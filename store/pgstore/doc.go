// Package pgstore remembers in PostgreSQL, through pgx: marks in the handler's own
// transaction, leases, dead letters and the outbox.
//
// # Guarantee
//
// A mark, what the handler wrote through its [pgx.Tx] and its outbox rows commit
// together or not at all. The unique index of the marks decides between rivals: the
// second one waits until the first transaction ends, within the lock limit. The end of
// a transaction is committed, rolled back or unknown; unknown is never reported as
// either of the others. Rows that an asynchronous replica has not received when it is
// promoted are lost together with the effects they guard.
//
// Exactly one connection is used for a message. Nothing is kept in a session: no
// session setting, no session lock, no LISTEN, no temporary table, so the store works
// behind a pooler in transaction mode and in every query mode of pgx (behind a pooler
// that does not track prepared statements choose [pgx.QueryExecModeExec]). It is
// correct at READ COMMITTED; at higher levels conflicts are retried by the guard.
//
// # Expiry
//
// Marks stay until they are removed. Leases and their results end by their own times.
//
// # Clock
//
// The server's alone. A mark's key never depends on any clock.
//
// # Schema
//
// All tables lie in a schema of their own ("semel"; see [WithSchema]). [Migrate] makes and
// changes them and needs a role that may; at run time a role is enough that owns
// nothing and may select, insert, update and delete.
//
// # What it does not do
//
// It does not read from replicas, does not reach into the application's tables, and cannot
// make an effect outside the transaction happen once: write such an effect to the outbox.
package pgstore
