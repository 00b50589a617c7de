package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// ListDead implements [store.DeadLetters].
func (s *Store) ListDead(ctx context.Context, f store.LetterFilter, after int64, limit int) ([]store.DeadLetter, error) {
	var states []int16
	for _, state := range f.States {
		states = append(states, int16(state))
	}
	rows, err := s.pool.Query(ctx, pgsql.In(s.schema, pgsql.ListDead),
		after, f.Consumer, orderID(f.Order), states, f.First, f.Last, timestamptz(f.Since), timestamptz(f.Until), limit)
	if err == nil {
		var letters []store.DeadLetter
		if letters, err = pgx.CollectRows(rows, scanDead); err == nil {
			return letters, nil
		}
	}
	return nil, fmt.Errorf("pgstore: list dead letters: %w", s.own(err))
}

// GetDead implements [store.DeadLetters].
func (s *Store) GetDead(ctx context.Context, id int64) (store.DeadLetter, error) {
	rows, err := s.pool.Query(ctx, pgsql.In(s.schema, pgsql.GetDead), id)
	if err == nil {
		var letter store.DeadLetter
		if letter, err = pgx.CollectExactlyOneRow(rows, scanDead); err == nil {
			return letter, nil
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	return store.DeadLetter{}, fmt.Errorf("pgstore: dead letter %d: %w", id, s.own(err))
}

// ParkedKeys implements [store.DeadLetters].
func (s *Store) ParkedKeys(ctx context.Context, consumer string, limit int) ([]store.ParkedKey, error) {
	rows, err := s.pool.Query(ctx, pgsql.In(s.schema, pgsql.ParkedKeys), consumer, limit)
	if err == nil {
		var keys []store.ParkedKey
		keys, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (k store.ParkedKey, err error) {
			err = row.Scan(&k.Consumer, &k.Order, &k.Head, &k.Reason, &k.Since, &k.Waiting)
			return k, err
		})
		if err == nil {
			return keys, nil
		}
	}
	return nil, fmt.Errorf("pgstore: list parked keys: %w", s.own(err))
}

func scanDead(row pgx.CollectableRow) (store.DeadLetter, error) {
	var d store.DeadLetter
	var key pgtype.UUID
	var state int16
	var topic, log []byte
	var names, values [][]byte
	var at *time.Time
	err := row.Scan(&d.ID, &d.Consumer, &key, &d.Key.Timed, &d.KeyText, &state, &d.Order, &d.Broker, &topic, &log, &d.Partition, &d.Offset, &at,
		&d.MessageKey, &names, &values, &d.Body, &d.Reason, &d.Attempts, &d.BuriedAt)
	if err != nil {
		return d, err
	}
	d.Key.ID, d.State, d.Topic, d.Log = key.Bytes, store.LetterState(state), string(topic), string(log)
	if at != nil {
		d.Time = *at
	}
	for i := range names {
		d.Headers = append(d.Headers, store.Header{Key: string(names[i]), Value: values[i]})
	}
	return d, nil
}
