package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
)

// makePartitions continues the partitions of the timed marks from the last one, or from
// some time before now where there is none, until they reach far enough ahead.
func (m migration) makePartitions(ctx context.Context, tx pgx.Tx) error {
	var now time.Time
	var last *int64
	err := tx.QueryRow(ctx, "select now(), (select max(to_ms) from "+quote(m.schema)+".mark_partitions)").Scan(&now, &last)
	if err != nil {
		return err
	}
	width := m.width.Milliseconds()
	from := now.Add(-m.behind).UnixMilli() / width * width
	if last != nil {
		from = *last
	}
	for until := now.Add(m.ahead).UnixMilli(); from <= until; from += width {
		if err := m.makePartition(ctx, tx, from, from+width); err != nil {
			return fmt.Errorf("partition from %s: %w", time.UnixMilli(from).UTC().Format(time.RFC3339), err)
		}
	}
	return nil
}

// makePartition attaches a table rather than creating it in place: ATTACH locks the parent
// only against other changes of its shape, so handlers go on marking. The default
// partition is locked whole, because rows that belong to the new one may lie there;
// they are moved. A handler that was on its way into the default partition at that
// moment is refused by its constraint, which [Store.Fault] calls a conflict.
func (m migration) makePartition(ctx context.Context, tx pgx.Tx, from, to int64) error {
	schema := quote(m.schema)
	name := "marks_timed_" + time.UnixMilli(from).UTC().Format("20060102t1504")
	table := schema + "." + quote(name)
	lo, hi := lowestID(from), lowestID(to)
	for _, sql := range []string{
		"lock table " + schema + ".marks_timed_rest in access exclusive mode",
		"create table " + table + " (like " + schema + ".marks_timed including all)",
		fmt.Sprintf(`with moved as (delete from %s.marks_timed_rest where key >= '%s' and key < '%s' returning scope, key, fingerprint)
			insert into %s (scope, key, fingerprint) select scope, key, fingerprint from moved`, schema, lo, hi, table),
		fmt.Sprintf("alter table %s.marks_timed attach partition %s for values from ('%s') to ('%s')", schema, table, lo, hi),
		fmt.Sprintf("insert into %s.mark_partitions (name, from_ms, to_ms) values ('%s', %d, %d)", schema, name, from, to),
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// lowestID is the smallest key that begins with a time.
func lowestID(ms int64) store.ID {
	var id store.ID
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}
