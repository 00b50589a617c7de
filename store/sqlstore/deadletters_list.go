package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// ListDead implements [store.DeadLetters].
func (s *Store) ListDead(ctx context.Context, f store.LetterFilter, after int64, limit int) ([]store.DeadLetter, error) {
	var states any
	if len(f.States) > 0 {
		numbers := make([]int16, len(f.States))
		for i, state := range f.States {
			numbers[i] = int16(state)
		}
		states = intArray(numbers)
	}
	var letters []store.DeadLetter
	err := s.list(ctx, func(rows *sql.Rows) error {
		d, err := scanDead(rows)
		letters = append(letters, d)
		return err
	}, pgsql.ListDead, after, f.Consumer, nullID(orderID(f.Order)), states, f.First, f.Last, nullTime(pgsql.Clamp(f.Since)), nullTime(pgsql.Clamp(f.Until)), int64(limit))
	if err != nil {
		return nil, fmt.Errorf("sqlstore: list dead letters: %w", s.own(ctx, err))
	}
	return letters, nil
}

// ParkedKeys implements [store.DeadLetters].
func (s *Store) ParkedKeys(ctx context.Context, consumer string, limit int) ([]store.ParkedKey, error) {
	var keys []store.ParkedKey
	err := s.list(ctx, func(rows *sql.Rows) error {
		var k store.ParkedKey
		err := rows.Scan(&k.Consumer, &k.Order, &k.Head, &k.Reason, &k.Since, &k.Waiting)
		keys = append(keys, k)
		return err
	}, pgsql.ParkedKeys, consumer, int64(limit))
	if err != nil {
		return nil, fmt.Errorf("sqlstore: list parked keys: %w", s.own(ctx, err))
	}
	return keys, nil
}

// list reads the rows of a query outside of any transaction.
func (s *Store) list(ctx context.Context, read func(*sql.Rows) error, text string, args ...any) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return each(ctx, conn, read, s.in(text), args...)
}

// scanDead reads a letter out of [sql.Rows] or a [sql.Row].
func scanDead(row interface{ Scan(dest ...any) error }) (store.DeadLetter, error) {
	var d store.DeadLetter
	var key, names, values string
	var state int16
	var topic, log []byte
	var at sql.NullTime
	err := row.Scan(&d.ID, &d.Consumer, &key, &d.Key.Timed, &d.KeyText, &state, &d.Order, &d.Broker, &topic, &log, &d.Partition, &d.Offset, &at,
		&d.MessageKey, &names, &values, &d.Body, &d.Reason, &d.Attempts, &d.BuriedAt)
	if err != nil {
		return d, err
	}
	if d.Key.ID, err = store.ParseID(key); err != nil {
		return d, err
	}
	d.State, d.Topic, d.Log, d.Time = store.LetterState(state), string(topic), string(log), at.Time
	d.Headers, err = readHeaders(names, values)
	return d, err
}

func readHeaders(names, values string) ([]store.Header, error) {
	keys, err := readBytesArray(names)
	if err != nil {
		return nil, err
	}
	contents, err := readBytesArray(values)
	if err != nil {
		return nil, err
	}
	if len(keys) != len(contents) {
		return nil, errArray
	}
	var headers []store.Header
	for i := range keys {
		headers = append(headers, store.Header{Key: string(keys[i]), Value: contents[i]})
	}
	return headers, nil
}
