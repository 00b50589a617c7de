//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// schema is the business side of a group. Nothing in it keeps a second effect out.
const schema = `
create table effects (
	id text not null, key text not null, n int not null, seq bigint not null,
	lane int not null, position bigint not null, child text not null,
	at timestamptz not null default clock_timestamp()
);
create index on effects (id);
create table sequences (key text primary key, seq bigint not null);
create table tills (till int primary key, sum bigint not null);
insert into tills select i, 0 from generate_series(0, 3) i;
create table deaths (id text not null, child text not null);
create table repairs (id text primary key);
`

// take writes a message's effect: the next place in the sequence of its key, and a row with it. The
// sequence's row is locked until the commit, so its order is the order of the commits.
const take = `
with next as (
	insert into sequences (key, seq) values ($2, 1)
	on conflict (key) do update set seq = sequences.seq + 1 returning seq
)
insert into effects (id, key, n, seq, lane, position, child) select $1, $2, $3, seq, $4, $5, $6 from next`

// clerk does the work of the messages.
type clerk struct {
	child   string
	group   string
	journal journal
	outbox  *outbox.Writer[pgx.Tx]
	outside *pgxpool.Pool // for what must stay though the process dies; nil for one that may not
}

func (c *clerk) handle(ctx context.Context, tx pgx.Tx, m dedup.Message) (err error) {
	id := c.idOf(m)
	c.journal.begin(id)
	// A panic ends the handler like an error. Only a process that is killed leaves it open.
	defer func() {
		if v := recover(); v != nil {
			c.journal.end(id, errors.New("panic"))
			panic(v)
		}
		c.journal.end(id, err)
	}()
	return c.work(ctx, tx, m)
}

func (c *clerk) handleAll(ctx context.Context, tx pgx.Tx, ms []dedup.Message) error {
	for _, m := range ms {
		if err := c.handle(ctx, tx, m); err != nil {
			return err
		}
	}
	return nil
}

func (c *clerk) work(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
	msg, err := parse(m.Body)
	if err != nil {
		return dedup.Permanent(err)
	}
	p := m.Position
	if c.group == placed {
		msg = atPlace(p, msg)
	}
	if _, err := tx.Exec(ctx, take, msg.ID, msg.Key, msg.N, p.Partition, p.Offset, c.child); err != nil {
		return err
	}
	if err := c.misbehave(ctx, tx, m, msg); err != nil {
		return err
	}
	return c.outbox.WriteTx(ctx, tx, store.Event{
		ID: m.ChildID(eventName), Destination: "receipts", Topic: receiptsOf(c.group), Key: []byte(msg.Key), Type: "payment.receipt", Payload: msg.body(),
	})
}

const eventName = "receipt"

// idOf is what the clerk calls a message.
func (c *clerk) idOf(m dedup.Message) string {
	if c.group == placed {
		return placeName(m.Position)
	}
	return idOf(m)
}

func (c *clerk) misbehave(ctx context.Context, tx pgx.Tx, m dedup.Message, msg message) error {
	switch msg.Kind {
	case contended:
		return c.count(ctx, tx, msg.ID)
	case slow:
		_, err := tx.Exec(ctx, "select pg_sleep(0.01)")
		return err
	case flaky:
		if m.Attempt <= 1 {
			return errors.New("not yet")
		}
	case failing, hopeless, panicking:
		return c.fail(ctx, tx, msg)
	case nameless:
		return dedup.Permanent(errors.New("who is it?")) // at the hands of an operator alone
	case killer:
		if c.outside != nil {
			return c.die(ctx, msg.ID)
		}
	}
	return nil
}

// fail does so unless an operator has repaired what was wrong with the message.
func (c *clerk) fail(ctx context.Context, tx pgx.Tx, msg message) error {
	var repaired bool
	err := tx.QueryRow(ctx, "select exists (select from repairs where id = $1)", msg.ID).Scan(&repaired)
	switch {
	case err != nil || repaired:
		return err
	case msg.Kind == hopeless:
		return dedup.Permanent(errors.New("never ever"))
	case msg.Kind == panicking:
		panic("at the handler's wit's end")
	}
	return errors.New("never")
}

// count changes one of very few rows, so that transactions meet there.
func (c *clerk) count(ctx context.Context, tx pgx.Tx, id string) error {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	_, err := tx.Exec(ctx, "update tills set sum = sum + 1 where till = $1", int(h.Sum32()%4))
	return err
}

// die kills the process, with the transaction open, unless the message has killed enough of them.
func (c *clerk) die(ctx context.Context, id string) error {
	var n int
	err := c.outside.QueryRow(ctx, `with dead as (
			insert into deaths (id, child) select $1, $2 where (select count(*) from deaths where id = $1) < $3 returning 1
		) select count(*) from dead`, id, c.child, deaths).Scan(&n)
	if err != nil {
		return fmt.Errorf("note the death: %w", err)
	}
	if n > 0 {
		kill()
	}
	return nil
}

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
