package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// AppendTx implements [store.Appender]: one statement, however many events. What sends them is
// a relay on pgstore.
func (s *Store) AppendTx(ctx context.Context, tx *sql.Tx, events []store.Event) error {
	if len(events) == 0 {
		return nil
	}
	text, args := pgsql.AppendMany, []any(nil)
	if len(events) == 1 {
		text, args = pgsql.AppendOne, appendOne(&events[0])
	} else {
		args = appendMany(events)
	}
	if _, err := tx.ExecContext(ctx, s.in(text), args...); err != nil {
		return fmt.Errorf("sqlstore: append %d events: %w", len(events), s.own(ctx, err))
	}
	return nil
}

func appendOne(e *store.Event) []any {
	return []any{int64(e.Slot()), e.ID.String(), e.Destination, e.Topic, nullBytes(e.Key), e.Type,
		nullBytes(e.Payload), nullBytes(pgsql.EncodeHeaders(e.Headers))}
}

func appendMany(events []store.Event) []any {
	n := len(events)
	slots := make([]int16, n)
	ids := make([]store.ID, n)
	destinations, topics, types := make([]string, n), make([]string, n), make([]string, n)
	keys, payloads, headers := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	for i := range events {
		e := &events[i]
		slots[i], ids[i] = e.Slot(), e.ID
		destinations[i], topics[i], keys[i], types[i] = e.Destination, e.Topic, e.Key, e.Type
		payloads[i], headers[i] = e.Payload, pgsql.EncodeHeaders(e.Headers)
	}
	return []any{intArray(slots), idArray(ids), textArray(destinations), textArray(topics), bytesArray(keys),
		textArray(types), bytesArray(payloads), bytesArray(headers)}
}
