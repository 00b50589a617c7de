package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/semel-dev/semel/store/internal/pgsql"
)

// Option configures [New].
type Option interface{ apply(*config) }

type config struct {
	schema      string
	lockWait    time.Duration
	acquireWait time.Duration
	isolation   sql.IsolationLevel

	limits                          pgsql.Limits
	statementLimited, idleIsLimited bool
}

type option func(*config)

func (f option) apply(c *config) { f(c) }

// WithSchema names the schema in which the tables lie. The default is "semel". The same name
// must have been given to pgstore.Migrate.
func WithSchema(name string) Option { return option(func(c *config) { c.schema = name }) }

// WithLockWait bounds how long a transaction waits for a lock, above all for a rival
// with the same key; past it the message is busy and comes back later. The default is five
// seconds. It is the transaction's lock_timeout, so it holds for the handler's
// statements too; a handler that wants another one says SET LOCAL lock_timeout.
func WithLockWait(limit time.Duration) Option {
	return option(func(c *config) { c.lockWait = limit })
}

// WithAcquireWait bounds how long a message waits for a connection of the [sql.DB]. The
// default is ten seconds. It matters where SetMaxOpenConns is smaller than the number of handlers
// that run at once; a handler that takes a second connection from the same sql.DB can deadlock
// with its peers until this limit.
func WithAcquireWait(limit time.Duration) Option {
	return option(func(c *config) { c.acquireWait = limit })
}

// WithStatementLimit bounds each statement of a transaction after the marks, those of the handler
// above all: it is the transaction's statement_timeout. A handler that fails of it has failed. The
// default leaves it to the server's setting.
func WithStatementLimit(limit time.Duration) Option {
	return option(func(c *config) { c.limits.Statement, c.statementLimited = limit, true })
}

// WithIdleLimit bounds how long a transaction may wait for its handler's next statement: it is the
// transaction's idle_in_transaction_session_timeout, past which the server ends the session and
// rolls back, so that a handler that hangs holds neither locks nor vacuum for ever. Its message
// fails; with github.com/lib/pq, which does not hand on what the server says, that looks like a lost
// connection and uses up no attempt. The default leaves it to the server's setting.
func WithIdleLimit(limit time.Duration) Option {
	return option(func(c *config) { c.limits.Idle, c.idleIsLimited = limit, true })
}

// WithIsolation sets the isolation level of the transactions. The default leaves it to
// the server, which means READ COMMITTED unless somebody has changed it. Above that level
// a rival's commit shows as a serialisation failure and the guard runs the whole
// transaction again.
func WithIsolation(level sql.IsolationLevel) Option {
	return option(func(c *config) { c.isolation = level })
}

func newConfig(opts []Option) (config, error) {
	c := config{schema: "semel", lockWait: 5 * time.Second, acquireWait: 10 * time.Second}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("an option is nil")
		}
		o.apply(&c)
	}
	switch {
	case c.lockWait < time.Millisecond:
		return c, fmt.Errorf("WithLockWait(%s): the least is 1ms; a wait without limit is not offered", c.lockWait)
	case c.lockWait.Milliseconds() > math.MaxInt32:
		return c, fmt.Errorf("WithLockWait(%s): PostgreSQL takes 24 days at most", c.lockWait)
	case c.statementLimited && !fits(c.limits.Statement):
		return c, fmt.Errorf("WithStatementLimit(%s): it must lie between 1ms and 24 days; leave the option out for none", c.limits.Statement)
	case c.idleIsLimited && !fits(c.limits.Idle):
		return c, fmt.Errorf("WithIdleLimit(%s): it must lie between 1ms and 24 days; leave the option out for none", c.limits.Idle)
	case c.acquireWait <= 0:
		return c, fmt.Errorf("WithAcquireWait(%s): the limit must be above zero", c.acquireWait)
	}
	switch c.isolation {
	case sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable:
	default:
		return c, fmt.Errorf("WithIsolation(%s): use sql.LevelReadCommitted, sql.LevelRepeatableRead or sql.LevelSerializable", c.isolation)
	}
	return c, pgsql.CheckSchema(c.schema)
}

func fits(limit time.Duration) bool {
	return limit >= time.Millisecond && limit.Milliseconds() <= math.MaxInt32
}
