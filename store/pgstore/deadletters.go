package pgstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
)

// BuryTx implements [store.Burier].
func (s *Store) BuryTx(ctx context.Context, tx pgx.Tx, d store.DeadLetter) error {
	sql, args := s.bury(d)
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("pgstore: bury a message of %q: %w", d.Consumer, s.own(err))
	}
	return nil
}

// bury is the statement that writes one letter. The scope is found by its name, which
// whoever marked in this transaction has interned; were it not there, NULL would make the
// statement fail, where a select that finds nothing would lose the letter and commit its mark.
func (s *Store) bury(d store.DeadLetter) (string, []any) {
	names, values := make([][]byte, len(d.Headers)), make([][]byte, len(d.Headers))
	for i, h := range d.Headers {
		names[i] = []byte(h.Key)
		// An array has no nil element here: a header without a value has an empty one.
		values[i] = append([]byte{}, h.Value...)
	}
	return `with parked as (
			insert into ` + s.schema + `.parked_keys (scope, order_id)
			select id, $19 from ` + s.schema + `.scopes where name = $1 and $17 = 0 and $19::uuid is not null
			on conflict do nothing
		)
		insert into ` + s.schema + `.dead_letters (scope, key, timed, key_text, broker, topic, log, partition, position, at,
			message_key, header_keys, header_values, body, reason, attempts, state, ordering, order_id)
		values ((select id from ` + s.schema + `.scopes where name = $1), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
		[]any{
			d.Consumer, pgtype.UUID{Bytes: d.Key.ID, Valid: true}, d.Key.Timed, append([]byte{}, d.KeyText...),
			cleanText(d.Broker), []byte(d.Topic), []byte(d.Log), int32(d.Partition), d.Offset,
			timestamptz(d.Time),
			d.MessageKey, names, values, d.Body, cleanText(d.Reason), int32(d.Attempts),
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

// cleanText makes text of what a person reads: errors may quote any bytes.
func cleanText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}
