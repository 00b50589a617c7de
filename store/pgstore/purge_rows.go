package pgstore

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// sweep is a set of rows that are deleted in steps, in the order of an index. The texts are SQL
// without arguments, so that each step is planned for what it is.
type sweep struct {
	table, where string
	// order is the column, of the index behind where, by which the rows go; last is the form in
	// which the place of the last one is returned, and from makes the next floor of it.
	order, last string
	from        func(last string) string
}

// byKey sweeps the marks of one scope with times before ms.
func byKey(table string, scope int32, ms int64) sweep {
	return sweep{
		table: table, where: fmt.Sprintf("scope = %d and key < '%s'", scope, lowestID(ms)),
		order: "key", last: "key::text", from: func(last string) string { return "'" + last + "'" },
	}
}

// byTime sweeps what has a time of its own in a column. The next step begins a millisecond
// before the end of the last one, so that nothing depends on how exactly a time is written.
func byTime(table, where, column string) sweep {
	return sweep{
		table: table, where: where, order: column,
		last: "(floor(extract(epoch from " + column + ") * 1000)::bigint - 1)::text",
		from: func(last string) string { return "timestamptz 'epoch' + " + last + " * interval '1 millisecond'" },
	}
}

// step deletes the next rows, from the floor on. Without a floor each step would walk over the dead
// index entries of all steps before it, as long as some old snapshot keeps them from being
// cleared away. Rows are not locked first, which would write each of them twice: nobody else
// changes them. Of a table that was never analyzed the server would read all old rows for each step
// and sort them, so it is told to go by the index. A crash may undo the last steps, because
// nobody waits for the disk; they are made again.
func (sw sweep) step(floor string, n int, lockWait time.Duration) string {
	if floor != "" {
		floor = " and " + sw.order + " >= " + floor
	}
	return fmt.Sprintf(`set local lock_timeout = %[7]d; set local synchronous_commit = off;
set local enable_seqscan = off; set local enable_bitmapscan = off;
with gone as (
	delete from %[1]s where ctid = any(array(select ctid from %[1]s where %[2]s%[3]s order by %[4]s limit %[5]d)) returning %[4]s
)
select count(*), (select %[6]s from gone order by gone.%[4]s desc limit 1) from gone`,
		sw.table, sw.where, floor, sw.order, n, sw.last, lockWait.Milliseconds())
}

// sweep deletes all rows of a sweep, at the allowed rate. A table that somebody has locked is passed by.
func (w *pass) sweep(ctx context.Context, sw sweep, count *int64) error {
	floor := ""
	for {
		if !sleep(ctx, time.Until(w.pace.next)) {
			return ctx.Err()
		}
		if err := w.turn.keep(ctx); err != nil {
			return err
		}
		n, last, err := w.delete(ctx, sw.step(floor, w.c.batch, w.c.lockWait))
		if isLocked(err) {
			w.done.Locked = append(w.done.Locked, sw.table)
			return nil
		}
		if err != nil {
			return err
		}
		*count += n
		w.pace.add(n)
		if n < int64(w.c.batch) {
			return nil
		}
		floor = sw.from(last)
	}
}

// delete sends one step in the simple protocol: a single message, which is a transaction.
func (w *pass) delete(ctx context.Context, sql string) (n int64, last string, err error) {
	conn, err := w.s.acquire(ctx)
	if err != nil {
		return 0, "", err
	}
	defer conn.Release()
	results, err := conn.Conn().PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return 0, "", err
	}
	row := results[len(results)-1].Rows[0]
	n, err = strconv.ParseInt(string(row[0]), 10, 64)
	return n, string(row[1]), err
}

// pace keeps an average of rows per second.
type pace struct {
	perSecond int
	next      time.Time
}

// add moves the earliest moment of the next step by what the last one deleted.
func (p *pace) add(n int64) {
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(n) * time.Second / time.Duration(p.perSecond))
}

// purgeRest removes old marks from the partition that is never dropped.
func (w *pass) purgeRest(ctx context.Context) error {
	for i := range w.scopes {
		sc := &w.scopes[i]
		if !sc.removes(1) {
			continue
		}
		if err := w.sweep(ctx, byKey(w.s.schema+".marks_timed_rest", sc.id, sc.safe), &w.done.Scopes[i].Rows); err != nil {
			return err
		}
	}
	return nil
}

// purgePlain removes old marks whose keys have no time.
func (w *pass) purgePlain(ctx context.Context) error {
	for i := range w.scopes {
		sc := &w.scopes[i]
		if !sc.removes(never + 1) {
			continue
		}
		where := fmt.Sprintf("scope = %d and at < timestamptz 'epoch' + %d * interval '1 millisecond'", sc.id, sc.safe)
		if err := w.sweep(ctx, byTime(w.s.schema+".marks_plain", where, "at"), &w.done.Scopes[i].Rows); err != nil {
			return err
		}
	}
	return nil
}

// purgeAttempts removes counts that nobody has forgotten: those older than the marks that are
// kept longest, and than a month.
func (w *pass) purgeAttempts(ctx context.Context) error {
	where := "at < now() - greatest(interval '30 days', (select max(keep_ms) from " + w.s.schema + ".scopes) * interval '1 millisecond')"
	return w.sweep(ctx, byTime(w.s.schema+".attempts", where, "at"), &w.done.Attempts)
}

// purgeLeases removes leases that bind nobody any more. A day is left to holders that were
// overtaken, because the tokens of a key begin anew when its row is gone.
func (w *pass) purgeLeases(ctx context.Context) error {
	const where = "until < now() - interval '1 day' and keep_until < now() - interval '1 day'"
	return w.sweep(ctx, byTime(w.s.schema+".leases", where, "until"), &w.done.Leases)
}
