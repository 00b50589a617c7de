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
// Marks stay for as long as their consumer asks, and longer where nobody removes them: run a
// [Purger] in one of the processes, or in all of them. What is old is measured by the
// messages, not by the clock: from the newest message settled in the partition that is furthest
// behind. So a consumer that was down for a month finds the marks of what it has not read, and
// a partition that nobody reads any more holds everything until [Store.ForgetPartition] is
// called. A message of before the removed time is [store.Late]: nobody can tell whether it
// was done, so it is not run. [Store.Retention] says where each consumer stands. A mark whose
// message has no time goes by the time at which it was set, and its message comes back as new.
//
// Marks with a time in their key lie in partitions by that time and go by partition, which costs
// handlers next to nothing; the others are deleted in small steps at a bounded rate. Attempts that were
// not forgotten go when the marks that are kept longest would, and not within a month; leases and
// their answers end by their own times and go a day later. Dead letters, parked keys and positions are
// never removed.
//
// # Clock
//
// The server's alone. A mark's key never depends on any clock.
//
// # Schema
//
// All tables lie in a schema of their own ("semel"; see [WithSchema]). [Migrate] makes and
// changes them and needs a role that may; at run time a role is enough that owns
// nothing and may select, insert, update and delete. A [Purger] with such a role announces, and
// deletes row by row; partitions it leaves alone ([Purged].NotOwner), so let one run with the role
// that owns the tables. It needs no right to see other roles' sessions.
//
// # What it does not do
//
// It does not read from replicas, does not reach into the application's tables, and cannot
// make an effect outside the transaction happen once: write such an effect to the outbox.
package pgstore
