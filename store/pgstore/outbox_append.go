package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

var (
	_ store.Appender[pgx.Tx]     = (*Store)(nil)
	_ store.Appender[*pgx.Batch] = Queued{}
)

// AppendTx implements [store.Appender]: one statement, however many events.
func (s *Store) AppendTx(ctx context.Context, tx pgx.Tx, events []store.Event) error {
	if len(events) == 0 {
		return nil
	}
	sql, args := s.appending(events)
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("pgstore: append %d events: %w", len(events), s.own(err))
	}
	return nil
}

// AppendTx implements [store.Appender]: the statement is queued and travels with the
// handler's own. Its error fails the transaction later, as that of any queued statement.
func (q Queued) AppendTx(_ context.Context, b *pgx.Batch, events []store.Event) error {
	if len(events) == 0 {
		return nil
	}
	sql, args := q.appending(events)
	b.Queue(sql, args...)
	return nil
}

// appending is the statement that writes events, with its arguments.
func (s *Store) appending(events []store.Event) (string, []any) {
	sql := s.outboxSQL()
	if len(events) == 1 {
		e := &events[0]
		return sql.appendOne, []any{e.Slot(), pgtype.UUID{Bytes: e.ID, Valid: true}, e.Destination, e.Topic, e.Key, e.Type, e.Payload, pgsql.EncodeHeaders(e.Headers)}
	}
	n := len(events)
	slots := make(pgtype.FlatArray[int16], n)
	ids := make(pgtype.FlatArray[pgtype.UUID], n)
	destinations := make(pgtype.FlatArray[string], n)
	topics := make(pgtype.FlatArray[string], n)
	keys := make(pgtype.FlatArray[[]byte], n)
	types := make(pgtype.FlatArray[string], n)
	payloads := make(pgtype.FlatArray[[]byte], n)
	headers := make(pgtype.FlatArray[[]byte], n)
	for i := range events {
		e := &events[i]
		slots[i], ids[i] = e.Slot(), pgtype.UUID{Bytes: e.ID, Valid: true}
		destinations[i], topics[i], keys[i], types[i] = e.Destination, e.Topic, e.Key, e.Type
		payloads[i], headers[i] = e.Payload, pgsql.EncodeHeaders(e.Headers)
	}
	return sql.appendMany, []any{slots, ids, destinations, topics, keys, types, payloads, headers}
}
