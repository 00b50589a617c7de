package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// aged is a partition of the timed marks.
type aged struct {
	name     string
	from, to int64
	missing  bool // there is no such table
}

func (a *aged) table(s *Store) string { return s.schema + "." + quote(a.name) }

// purgePartitions removes the timed marks that lie in partitions, in two steps. A partition is
// emptied with TRUNCATE, which locks nothing but the partition itself, where handlers come only
// with messages as old. An empty one is dropped, which needs the whole table for a moment, and so
// waits for every handler that is at work; no more than the limit, since new ones queue behind
// it. An empty partition that stays costs next to nothing.
//
// DETACH CONCURRENTLY would not lock the table, but is refused beside a default partition.
func (w *pass) purgePartitions(ctx context.Context) error {
	if err := w.s.scanRow(ctx, []any{&w.owner}, `select coalesce((select pg_has_role(c.relowner, 'USAGE') and has_schema_privilege(n.oid, 'CREATE')
		from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = 'marks_timed'), false)`, w.s.config.schema); err != nil {
		return err
	}
	w.done.NotOwner = !w.owner
	furthest, nearest := int64(never), int64(never)
	for i := range w.scopes {
		sc := &w.scopes[i]
		if !sc.removes(never + 1) {
			continue
		}
		if furthest == never || sc.safe < nearest {
			nearest = sc.safe
		}
		furthest = max(furthest, sc.safe)
	}
	if !w.owner || furthest == never {
		return nil
	}
	past, err := w.partitionsUntil(ctx, furthest)
	if err != nil {
		return err
	}
	var empty []aged
	for _, a := range past {
		if err := w.turn.keep(ctx); err != nil {
			return err
		}
		emptied, err := w.purgePartition(ctx, &a)
		if err != nil {
			return fmt.Errorf("partition %s: %w", a.name, err)
		}
		// A consumer that has not come so far keeps its partition, or its marks would go to the rest.
		if emptied && a.to <= nearest {
			empty = append(empty, a)
		}
	}
	return w.drop(ctx, empty)
}

func (w *pass) partitionsUntil(ctx context.Context, ms int64) ([]aged, error) {
	conn, err := w.s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, w.s.in(`select name, from_ms, to_ms, to_regclass(format('%I.%I', $1::text, name)) is null
		from {schema}.mark_partitions where to_ms <= $2 order by from_ms`), w.s.config.schema, ms)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (a aged, err error) {
		err = row.Scan(&a.name, &a.from, &a.to, &a.missing)
		return a, err
	})
}

// purgePartition empties a partition where nobody needs it. Where somebody does, and the time of the
// others has passed it by as much again as it is wide, their marks go row by row: it will not go whole soon.
func (w *pass) purgePartition(ctx context.Context, a *aged) (emptied bool, err error) {
	if a.missing {
		return true, nil
	}
	var p presence
	var size int64
	err = w.inTx(ctx, func(tx pgx.Tx) error {
		if p, err = w.presentIn(ctx, tx, a); err != nil {
			return err
		}
		size, err = w.sizeIn(ctx, tx, a)
		return err
	})
	switch {
	case isLocked(err):
		w.done.Locked = append(w.done.Locked, a.name)
		return false, nil
	case err != nil:
		return false, err
	case size == 0:
		return true, nil
	case !p.needed:
		return w.truncate(ctx, a)
	}
	for i := range w.scopes {
		sc := &w.scopes[i]
		if p.scopes[sc.id] && sc.removes(a.to+(a.to-a.from)) {
			if err := w.sweep(ctx, byKey(a.table(w.s), sc.id, a.to), &w.done.Scopes[i].Rows); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// sizeIn is the size of a partition in bytes; one that was emptied has none.
func (w *pass) sizeIn(ctx context.Context, tx pgx.Tx, a *aged) (bytes int64, err error) {
	err = tx.QueryRow(ctx, "select pg_relation_size(format('%I.%I', $1::text, $2::text)::regclass)", w.s.config.schema, a.name).Scan(&bytes)
	return bytes, err
}

// presence is which scopes have rows in a partition, and whether any of them needs them.
type presence struct {
	scopes map[int32]bool
	needed bool
}

// presentIn jumps from one scope to the next one in the index, so it costs no more than there are
// scopes. A scope that has no row of its own any more, or one that was begun since, is needed.
func (w *pass) presentIn(ctx context.Context, tx pgx.Tx, a *aged) (presence, error) {
	table := a.table(w.s)
	rows, err := tx.Query(ctx, `with recursive present (scope) as (
	(select scope from `+table+` order by scope limit 1)
	union all
	select (select t.scope from `+table+` t where t.scope > present.scope order by t.scope limit 1) from present where present.scope is not null
) select scope from present where scope is not null`)
	if err != nil {
		return presence{}, err
	}
	p := presence{scopes: map[int32]bool{}}
	var id int32
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		p.scopes[id] = true
		p.needed = p.needed || !w.isDone(id, a.to)
		return nil
	})
	return p, err
}

func (w *pass) isDone(scope int32, ms int64) bool {
	for i := range w.scopes {
		if w.scopes[i].id == scope {
			return w.scopes[i].removes(ms)
		}
	}
	return false
}

// truncate empties a partition. Who has marks in it is asked once more under the lock, under which
// nobody adds any.
func (w *pass) truncate(ctx context.Context, a *aged) (emptied bool, err error) {
	err = w.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "lock table only "+a.table(w.s)+" in access exclusive mode"); err != nil {
			return err
		}
		p, err := w.presentIn(ctx, tx, a)
		if err != nil || p.needed {
			return err
		}
		_, err = tx.Exec(ctx, "truncate only "+a.table(w.s))
		emptied = err == nil
		return err
	})
	switch {
	case isLocked(err):
		w.done.Locked = append(w.done.Locked, a.name)
		return false, nil
	case err != nil:
		return false, err
	case emptied:
		w.done.Emptied = append(w.done.Emptied, a.name)
	}
	return emptied, nil
}
