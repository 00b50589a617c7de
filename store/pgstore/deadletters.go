package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
	return `insert into ` + s.schema + `.dead_letters (scope, key, timed, key_text, broker, topic, log, partition, position, at,
			message_key, header_keys, header_values, body, reason, attempts)
		values ((select id from ` + s.schema + `.scopes where name = $1), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		[]any{
			d.Consumer, pgtype.UUID{Bytes: d.Key.ID, Valid: true}, d.Key.Timed, append([]byte{}, d.KeyText...),
			cleanText(d.Broker), []byte(d.Topic), []byte(d.Log), int32(d.Partition), d.Offset,
			timestamptz(d.Time),
			d.MessageKey, names, values, d.Body, cleanText(d.Reason), int32(d.Attempts),
		}
}

// cleanText makes text of what a person reads: errors may quote any bytes.
func cleanText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

const deadColumns = `d.id, s.name, d.key, d.timed, d.key_text, d.broker, d.topic, d.log, d.partition, d.position, d.at,
	d.message_key, d.header_keys, d.header_values, d.body, d.reason, d.attempts, d.buried_at`

// ListDead implements [store.DeadLetters].
func (s *Store) ListDead(ctx context.Context, consumer string, after int64, limit int) ([]store.DeadLetter, error) {
	rows, err := s.pool.Query(ctx, "select "+deadColumns+" from "+s.schema+".dead_letters d join "+s.schema+`.scopes s on s.id = d.scope
		where d.id > $2 and ($1 = '' or s.name = $1) order by d.id limit $3`, consumer, after, limit)
	if err == nil {
		var letters []store.DeadLetter
		if letters, err = pgx.CollectRows(rows, scanDead); err == nil {
			return letters, nil
		}
	}
	return nil, fmt.Errorf("pgstore: list dead letters of %q: %w", consumer, s.own(err))
}

// GetDead implements [store.DeadLetters].
func (s *Store) GetDead(ctx context.Context, id int64) (store.DeadLetter, error) {
	rows, err := s.pool.Query(ctx, "select "+deadColumns+" from "+s.schema+".dead_letters d join "+s.schema+".scopes s on s.id = d.scope where d.id = $1", id)
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

// DiscardDead implements [store.DeadLetters].
func (s *Store) DiscardDead(ctx context.Context, ids ...int64) (int, error) {
	tag, err := s.pool.Exec(ctx, "delete from "+s.schema+".dead_letters where id = any($1)", ids)
	if err != nil {
		return 0, fmt.Errorf("pgstore: discard %d dead letters: %w", len(ids), s.own(err))
	}
	return int(tag.RowsAffected()), nil
}

func scanDead(row pgx.CollectableRow) (store.DeadLetter, error) {
	var d store.DeadLetter
	var key pgtype.UUID
	var topic, log []byte
	var names, values [][]byte
	var at *time.Time
	err := row.Scan(&d.ID, &d.Consumer, &key, &d.Key.Timed, &d.KeyText, &d.Broker, &topic, &log, &d.Partition, &d.Offset, &at,
		&d.MessageKey, &names, &values, &d.Body, &d.Reason, &d.Attempts, &d.BuriedAt)
	if err != nil {
		return d, err
	}
	d.Key.ID, d.Topic, d.Log = key.Bytes, string(topic), string(log)
	if at != nil {
		d.Time = *at
	}
	for i := range names {
		d.Headers = append(d.Headers, store.Header{Key: string(names[i]), Value: values[i]})
	}
	return d, nil
}
