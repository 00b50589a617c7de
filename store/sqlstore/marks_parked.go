package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/semel-dev/semel/store"
)

// block asks which ordering keys of the new marks are parked, and holds those that are. It comes
// after the marks: a rival for whose mark this transaction waited may have parked one.
func (m *marking) block(ctx context.Context, q querier) error {
	var scopes []store.Scope
	for i := range m.marks {
		if m.asks(i) && !slices.Contains(scopes, m.marks[i].Scope) {
			scopes = append(scopes, m.marks[i].Scope)
		}
	}
	slices.Sort(scopes)
	for _, scope := range scopes {
		var orders []store.ID
		for i := range m.marks {
			if m.asks(i) && m.marks[i].Scope == scope {
				orders = append(orders, m.marks[i].Order)
			}
		}
		err := each(ctx, q, func(rows *sql.Rows) error {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			order, err := store.ParseID(text)
			if err != nil {
				return err
			}
			for i := range m.marks {
				if m.asks(i) && m.marks[i].Scope == scope && m.marks[i].Order == order {
					m.status[i] = store.Blocked
				}
			}
			return nil
		}, m.s.sql.parked, int64(scope), idArray(orders))
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *marking) asks(i int) bool {
	return m.status[i] == store.New && !m.marks[i].Order.IsZero()
}
