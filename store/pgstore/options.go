package pgstore

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store/internal/pgsql"
)

// Option configures [New].
type Option interface{ applyStore(*config) }

// MigrateOption configures [Migrate].
type MigrateOption interface{ applyMigrate(*migration) }

type config struct {
	schema      string
	lockWait    time.Duration
	acquireWait time.Duration
	isolation   pgx.TxIsoLevel

	statementLimit, idleLimit       time.Duration
	statementLimited, idleIsLimited bool
}

type storeOption func(*config)

func (f storeOption) applyStore(c *config) { f(c) }

// SchemaOption is an option of both [New] and [Migrate].
type SchemaOption struct{ name string }

func (o SchemaOption) applyStore(c *config)      { c.schema = o.name }
func (o SchemaOption) applyMigrate(m *migration) { m.schema = o.name }

// WithSchema names the schema in which the tables lie. The default is "semel". Use
// another one to keep two applications in one database apart; the same name must be
// given to [New] and to [Migrate].
func WithSchema(name string) SchemaOption { return SchemaOption{name} }

// WithLockWait bounds how long a transaction waits for a lock, above all for a rival
// with the same key; past it the message is busy and comes back later. The default is five
// seconds. It is the transaction's lock_timeout, so it holds for the handler's
// statements too; a handler that wants another one says SET LOCAL lock_timeout.
func WithLockWait(limit time.Duration) Option {
	return storeOption(func(c *config) { c.lockWait = limit })
}

// WithAcquireWait bounds how long a message waits for a connection of the pool. The
// default is ten seconds. A pool smaller than the number of handlers that run at once
// makes them wait; a handler that takes a second connection from the same pool can
// deadlock with its peers until this limit.
func WithAcquireWait(limit time.Duration) Option {
	return storeOption(func(c *config) { c.acquireWait = limit })
}

// WithStatementLimit bounds each statement of a transaction after the marks, those of the handler
// above all: it is the transaction's statement_timeout. A handler that fails of it has failed. The
// default leaves it to the server's setting.
func WithStatementLimit(limit time.Duration) Option {
	return storeOption(func(c *config) { c.statementLimit, c.statementLimited = limit, true })
}

// WithIdleLimit bounds how long a transaction may wait for its handler's next statement: it is the
// transaction's idle_in_transaction_session_timeout, past which the server ends the session and
// rolls back, so that a handler that hangs holds neither locks nor vacuum for ever. Its message
// fails. The default leaves it to the server's setting.
func WithIdleLimit(limit time.Duration) Option {
	return storeOption(func(c *config) { c.idleLimit, c.idleIsLimited = limit, true })
}

// WithIsolation sets the isolation level of the transactions. The default leaves it to
// the server, which means READ COMMITTED unless somebody has changed it. Above that level
// a rival's commit shows as a serialisation failure and the guard runs the whole
// transaction again.
func WithIsolation(level pgx.TxIsoLevel) Option {
	return storeOption(func(c *config) { c.isolation = level })
}

func newConfig(opts []Option) (config, error) {
	c := config{schema: "semel", lockWait: 5 * time.Second, acquireWait: 10 * time.Second}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("an option is nil")
		}
		o.applyStore(&c)
	}
	switch {
	case c.lockWait < time.Millisecond:
		return c, fmt.Errorf("WithLockWait(%s): the least is 1ms; a wait without limit is not offered", c.lockWait)
	case c.lockWait.Milliseconds() > math.MaxInt32:
		return c, fmt.Errorf("WithLockWait(%s): PostgreSQL takes 24 days at most", c.lockWait)
	case c.statementLimited && (c.statementLimit < time.Millisecond || c.statementLimit.Milliseconds() > math.MaxInt32):
		return c, fmt.Errorf("WithStatementLimit(%s): it must lie between 1ms and 24 days; leave the option out for none", c.statementLimit)
	case c.idleIsLimited && (c.idleLimit < time.Millisecond || c.idleLimit.Milliseconds() > math.MaxInt32):
		return c, fmt.Errorf("WithIdleLimit(%s): it must lie between 1ms and 24 days; leave the option out for none", c.idleLimit)
	case c.acquireWait <= 0:
		return c, fmt.Errorf("WithAcquireWait(%s): the limit must be above zero", c.acquireWait)
	}
	switch c.isolation {
	case "", pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
	default:
		return c, fmt.Errorf("WithIsolation(%q): use pgx.ReadCommitted, pgx.RepeatableRead or pgx.Serializable", c.isolation)
	}
	return c, pgsql.CheckSchema(c.schema)
}

// quote makes an SQL identifier of a schema's name.
func quote(schema string) string { return pgsql.Quote(schema) }
