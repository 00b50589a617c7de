package sqlstore

import (
	"context"
	"database/sql"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// block asks which ordering keys of the new marks are parked, and holds those that are. It comes
// after the marks: a rival for whose mark this transaction waited may have parked one.
func (m *marking) block(ctx context.Context, q querier) error {
	found := map[pgsql.ParkedKey]bool{}
	for _, o := range pgsql.OrdersOf(m.marks, func(i int) bool { return m.status[i] == store.New }) {
		err := each(ctx, q, func(rows *sql.Rows) error {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			parked, err := store.ParseID(text)
			if err != nil {
				return err
			}
			found[pgsql.ParkedKey{Scope: o.Scope, Order: parked}] = true
			return nil
		}, m.s.sql.parked, int64(o.Scope), idArray(o.IDs))
		if err != nil {
			return err
		}
	}
	pgsql.Block(m.marks, m.status, found)
	return nil
}
