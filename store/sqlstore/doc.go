// Package sqlstore remembers in PostgreSQL, through database/sql: marks in the handler's own
// transaction, dead letters and the outbox's write side, for handlers that work with a [sql.Tx]
// or with what is built on one (GORM, Bun, sqlx, ent, sqlc). The tables and the statements are those of
// pgstore, so both may work on one database at a time.
//
// # Guarantee
//
// That of pgstore: a mark, what the handler wrote through its [sql.Tx] and its outbox rows commit
// together or not at all. The unique index of the marks decides between rivals: the second one
// waits until the first transaction ends, within the lock limit. The end of a transaction is
// committed, rolled back or unknown; unknown is never reported as either of the others.
//
// A [sql.Tx] can be committed by whoever has it, so a handler can end its transaction, and
// cannot be kept from it. It is found out: whether by Commit or Rollback of the sql.Tx or by a statement
// such as "rollback", its message is Unknown with [store.ErrTxControl], never committed, and what it
// has written is as it has left it.
//
// Exactly one connection is used for a message. Nothing is kept in a session, so the store works
// behind a pooler in transaction mode, if the driver is told to do without prepared statements.
//
// # Drivers
//
// Whichever speaks to PostgreSQL and has errors with a method SQLState: it is tested with
// github.com/jackc/pgx/v5/stdlib and with github.com/lib/pq. The latter does not say why a session
// was ended (everything fatal is driver.ErrBadConn), takes two round trips for each statement with
// arguments unless it has binary_parameters=yes, and does not give up a connection on which nothing
// comes any more when a context ends. Where you can choose, choose pgx.
//
// # Round trips
//
// database/sql sends one statement at a time. A message costs four round trips and those of its
// handler: BEGIN, the mark, a question whether the transaction is still the one that was begun,
// COMMIT; and one more for each of these: a mark that was there already, an ordering key. (Without the
// question, a handler that has run "rollback" would have its message acknowledged and lost; and what
// fails in it has failed before COMMIT, which makes many an end certain.) pgstore needs two, one where
// the next message is known, and none of its own where the handler queues its statements, which
// travel with them: it is faster by as much as the network is slow.
//
// # Expiry
//
// Marks stay until they are removed, which a purger of pgstore does.
//
// # Clock
//
// The server's alone. A mark's key never depends on any clock.
//
// # Schema
//
// pgstore.Migrate makes and changes the tables ("semel"; see [WithSchema]), over a pool of pgx that
// is needed for nothing else; pgstore.Migrations gives the same as SQL to run by other means.
// At run time a role is enough that owns nothing and may select, insert, update and delete.
//
// # What it does not do
//
// It has no leases and does not send what is in the outbox: a relay runs on pgstore, in the same
// process or in one of its own. It does not tell a connection that was lost from one that the driver
// closed because a deadline of the handler's own had passed: a handler that hides the error of
// such a statement behind one of its own uses up an attempt. It cannot make an effect outside the
// transaction happen once: write such an effect to the outbox.
package sqlstore
