package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// BuryTx implements [store.Burier].
func (s *Store) BuryTx(ctx context.Context, tx pgx.Tx, d store.DeadLetter) error {
	sql, args := s.bury(d)
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("pgstore: bury a message of %q: %w", d.Consumer, s.own(err))
	}
	return nil
}

// bury is the statement that writes one letter, with its arguments.
func (s *Store) bury(d store.DeadLetter) (string, []any) {
	names, values := make([][]byte, len(d.Headers)), make([][]byte, len(d.Headers))
	for i, h := range d.Headers {
		names[i] = []byte(h.Key)
		// An array has no nil element here: a header without a value has an empty one.
		values[i] = append([]byte{}, h.Value...)
	}
	return pgsql.In(s.schema, pgsql.Bury),
		[]any{
			d.Consumer, pgtype.UUID{Bytes: d.Key.ID, Valid: true}, d.Key.Timed, append([]byte{}, d.KeyText...),
			pgsql.CleanText(d.Broker), []byte(d.Topic), []byte(d.Log), int32(d.Partition), d.Offset,
			timestamptz(d.Time),
			d.MessageKey, names, values, d.Body, pgsql.CleanText(d.Reason), int32(d.Attempts),
			int16(d.State), d.Order, orderID(d.Order),
		}
}

// orderID is null without an ordering key.
func orderID(order []byte) pgtype.UUID {
	if len(order) == 0 {
		return pgtype.UUID{}
	}
	return pgtype.UUID{Bytes: store.OrderID(order), Valid: true}
}
