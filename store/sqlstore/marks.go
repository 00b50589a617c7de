package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// MarkTx implements [store.TxMarker]: it marks in a transaction that the caller owns. The
// limit on lock waits stays set for the rest of that transaction.
func (s *Store) MarkTx(ctx context.Context, tx *sql.Tx, marks []store.Mark) ([]store.Status, error) {
	return s.markTx(ctx, tx, mode{keys: true}, marks)
}

func (s *Store) markTx(ctx context.Context, tx *sql.Tx, by mode, marks []store.Mark) ([]store.Status, error) {
	m := &marking{s: s, mode: by, marks: marks}
	if err := m.set(ctx, tx); err != nil {
		return nil, fmt.Errorf("sqlstore: mark: %w", s.own(ctx, err))
	}
	return m.status, nil
}

// mode is what a view of the store decides by.
type mode struct{ keys, positions bool }

// marking is a set of marks that is being set: a statement for each scope and table, one more where
// some were not new, and one more where they have ordering keys.
type marking struct {
	s     *Store
	mode  mode
	marks []store.Mark

	status    []store.Status
	positions []pgsql.Position
	// xact is the number of the transaction, known once anything is set in it.
	xact string
}

func (m *marking) set(ctx context.Context, q querier) error {
	if len(m.marks) == 0 {
		return nil
	}
	m.status = make([]store.Status, len(m.marks))
	if m.mode.positions {
		if err := m.moveFences(ctx, q); err != nil {
			return err
		}
	}
	if m.mode.keys {
		if err := m.setGroups(ctx, q); err != nil {
			return err
		}
	}
	for i := range m.positions {
		if err := m.settleFence(ctx, q, &m.positions[i]); err != nil {
			return err
		}
	}
	return m.block(ctx, q)
}
