package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	announce = `update {schema}.scopes s
set purged_ms = p.ms, purged_xid = pg_current_xact_id()
from (
	select r.scope, floor(extract(epoch from least(min(r.newest), now())) * 1000)::bigint - k.keep_ms as ms
	from {schema}.reaches r join {schema}.scopes k on k.id = r.scope
	where k.keep_ms is not null
	group by r.scope, k.keep_ms
) p
where s.id = p.scope and s.keep_ms is not null and p.ms > s.purged_ms and s.safe_ms = s.purged_ms`

	// The announcements that are not safe yet, each with the sessions whose snapshots may not see it. That
	// a row is found says that its transaction had committed before this statement looks at the
	// sessions. A session's xmin has 32 bits and is brought to 64 beside the next number. Sessions
	// without a user are autovacuum's; they mark nothing, and may hold a snapshot for long. What is
	// compared here is shown to every role, other than the kind of a session or its start.
	unsafe = `with next as materialized (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xid),
sessions as materialized (
	select a.pid, l.virtualtransaction as tx, a.application_name, a.xact_start,
		next.xid - (((next.xid - a.backend_xmin::text::bigint + 2147483648) & 4294967295) - 2147483648) as xmin
	from pg_stat_activity a
	join pg_locks l on l.pid = a.pid and l.locktype = 'virtualxid' and l.virtualxid = l.virtualtransaction and l.granted
	cross join next
	where a.datid = (select oid from pg_database where datname = current_database())
		and a.usesysid is not null and a.backend_xmin is not null and a.pid <> pg_backend_pid()
)
select s.xid, h.pid, h.tx, h.application_name, h.xact_start
from (select distinct purged_xid::text as xid from {schema}.scopes where safe_ms < purged_ms) s
left join sessions h on h.xmin <= s.xid::bigint
order by h.xmin`

	markSafe = `update {schema}.scopes set safe_ms = purged_ms where purged_xid::text = $1 and safe_ms < purged_ms`
)

// announce announces what may be removed, where the last announcement is safe, and waits for a while
// until the new one is.
func (w *pass) announce(ctx context.Context) error {
	if _, err := w.settle(ctx); err != nil {
		return err
	}
	if _, err := w.s.exec(ctx, w.s.in(announce)); err != nil {
		return err
	}
	deadline := time.Now().Add(w.c.snapshotWait)
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		outstanding, err := w.settle(ctx)
		if err != nil || outstanding == 0 || time.Now().After(deadline) {
			return err
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
		if err := w.turn.keep(ctx); err != nil {
			return err
		}
	}
}

// settle notes which announcements are safe by now, and returns how many are not.
func (w *pass) settle(ctx context.Context) (outstanding int, err error) {
	conn, err := w.s.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, w.s.in(unsafe))
	if err != nil {
		return 0, err
	}
	now := map[string]map[oldTx]*Session{}
	var xid string
	var pid *int32
	var tx, name *string
	var since *time.Time
	_, err = pgx.ForEachRow(rows, []any{&xid, &pid, &tx, &name, &since}, func() error {
		if now[xid] == nil {
			now[xid] = map[oldTx]*Session{}
		}
		if pid != nil {
			now[xid][oldTx{*pid, *tx}] = newSession(*pid, name, since)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	w.done.Snapshot = w.older.narrow(now)
	for xid := range now {
		if w.older.holds(xid) {
			outstanding++
			continue
		}
		if _, err := conn.Exec(ctx, w.s.in(markSafe), xid); err != nil {
			return outstanding, err
		}
	}
	return outstanding, nil
}
