package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
)

const deadColumns = `d.id, s.name, d.key, d.timed, d.key_text, d.state, d.ordering, d.broker, d.topic, d.log, d.partition, d.position, d.at,
	d.message_key, d.header_keys, d.header_values, d.body, d.reason, d.attempts, d.buried_at`

// selectDead reads letters with the names of their consumers.
func (s *Store) selectDead() string {
	return "select " + deadColumns + " from " + s.schema + ".dead_letters d join " + s.schema + ".scopes s on s.id = d.scope"
}

// ListDead implements [store.DeadLetters].
func (s *Store) ListDead(ctx context.Context, f store.LetterFilter, after int64, limit int) ([]store.DeadLetter, error) {
	var states []int16
	for _, state := range f.States {
		states = append(states, int16(state))
	}
	rows, err := s.pool.Query(ctx, s.selectDead()+`
		where d.id > $1 and ($2 = '' or s.name = $2) and ($3::uuid is null or d.order_id = $3)
			and ($4::smallint[] is null or d.state = any($4))
			and ($5 = 0 or d.id >= $5) and ($6 = 0 or d.id <= $6)
			and ($7::timestamptz is null or d.buried_at >= $7) and ($8::timestamptz is null or d.buried_at < $8)
		order by d.id limit $9`,
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
	rows, err := s.pool.Query(ctx, s.selectDead()+" where d.id = $1", id)
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
	rows, err := s.pool.Query(ctx, `select s.name, h.ordering, h.id, h.reason, p.since, w.n
		from `+s.schema+`.parked_keys p
		join `+s.schema+`.scopes s on s.id = p.scope
		cross join lateral (
			select d.id, d.ordering, d.reason from `+s.schema+`.dead_letters d
			where d.scope = p.scope and d.order_id = p.order_id and d.state < 2 order by d.id limit 1) h
		cross join lateral (
			select count(*) - 1 as n from `+s.schema+`.dead_letters d
			where d.scope = p.scope and d.order_id = p.order_id and d.state < 2) w
		where $1 = '' or s.name = $1
		order by p.since, h.id limit $2`, consumer, limit)
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
