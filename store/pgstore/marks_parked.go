package pgstore

import (
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
)

// queueParked asks which of the ordering keys are parked, and holds those that are, behind the marks
// and in their round trip: a rival for whose mark this transaction waited may have parked one.
func (m *marking) queueParked(b *pgx.Batch) {
	for i := range m.marks {
		if !m.marks[i].Order.IsZero() && !slices.Contains(m.ordered, m.marks[i].Scope) {
			m.ordered = append(m.ordered, m.marks[i].Scope)
		}
	}
	for _, scope := range m.ordered {
		var orders pgtype.FlatArray[pgtype.UUID]
		for i := range m.marks {
			if mark := &m.marks[i]; mark.Scope == scope && !mark.Order.IsZero() {
				orders = append(orders, pgtype.UUID{Bytes: mark.Order, Valid: true})
			}
		}
		b.Queue(m.s.sql.parked, int32(scope), orders)
	}
}

type parkedKey struct {
	scope store.Scope
	order store.ID
}

// readParked takes the answers.
func (m *marking) readParked(results pgx.BatchResults) error {
	for _, scope := range m.ordered {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		for rows.Next() {
			order, err := rawUUID(rows.RawValues()[0])
			if err != nil {
				rows.Close()
				return err
			}
			m.parked = append(m.parked, parkedKey{scope, order})
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}

// block turns what is new and belongs to a parked key.
func (m *marking) block() {
	for _, k := range m.parked {
		for i := range m.marks {
			if m.status[i] == store.New && m.marks[i].Scope == k.scope && m.marks[i].Order == k.order {
				m.status[i] = store.Blocked
			}
		}
	}
}
