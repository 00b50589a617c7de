package pgstore

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store/internal/pgsql"
)

// queueParked asks which of the ordering keys are parked, and holds those that are, behind the marks
// and in their round trip: a rival for whose mark this transaction waited may have parked one.
func (m *marking) queueParked(b *pgx.Batch) {
	// Which marks are new is not known yet, so all are asked for.
	for _, o := range pgsql.OrdersOf(m.marks, func(int) bool { return true }) {
		orders := make(pgtype.FlatArray[pgtype.UUID], len(o.IDs))
		for n, id := range o.IDs {
			orders[n] = pgtype.UUID{Bytes: id, Valid: true}
		}
		m.ordered = append(m.ordered, o.Scope)
		b.Queue(m.s.sql.parked, int32(o.Scope), orders)
	}
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
			if m.parked == nil {
				m.parked = map[pgsql.ParkedKey]bool{}
			}
			m.parked[pgsql.ParkedKey{Scope: scope, Order: order}] = true
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (m *marking) block() { pgsql.Block(m.marks, m.status, m.parked) }
