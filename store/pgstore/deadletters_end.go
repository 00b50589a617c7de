package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

var (
	_ store.Reviver[pgx.Tx]     = (*Store)(nil)
	_ store.Reviver[*pgx.Batch] = Queued{}
)

// Revive implements [store.Reviver].
func (s *Store) Revive(ctx context.Context, id int64) (store.Unit[pgx.Tx], store.DeadLetter, error) {
	u, letter, err := s.revive(ctx, id)
	if err != nil {
		return nil, store.DeadLetter{}, err
	}
	return u, letter, nil
}

// Revive implements [store.Reviver].
func (q Queued) Revive(ctx context.Context, id int64) (store.Unit[*pgx.Batch], store.DeadLetter, error) {
	u, letter, err := q.revive(ctx, id)
	if err != nil {
		return nil, store.DeadLetter{}, err
	}
	return &queuedUnit{u, &pgx.Batch{}}, letter, nil
}

func (s *Store) revive(ctx context.Context, id int64) (*unit, store.DeadLetter, error) {
	u, _, err := s.begin(ctx, nil)
	if err != nil {
		return nil, store.DeadLetter{}, err
	}
	letter, err := s.takeDead(ctx, u.tx, id)
	if err != nil {
		u.abandon(ctx)
		return nil, store.DeadLetter{}, fmt.Errorf("pgstore: revive dead letter %d: %w", id, s.own(err))
	}
	return u, letter, nil
}

// takeDead removes a letter in the transaction. The letter is locked first and its ordering key
// afterwards, here and in [Store.DiscardDead].
func (s *Store) takeDead(ctx context.Context, tx pgx.Tx, id int64) (store.DeadLetter, error) {
	if _, err := tx.Exec(ctx, s.sql.limitWaits, s.sql.lockTimeout); err != nil {
		return store.DeadLetter{}, err
	}
	rows, err := tx.Query(ctx, pgsql.In(s.schema, pgsql.LockDead), id)
	if err != nil {
		return store.DeadLetter{}, err
	}
	letter, err := pgx.CollectExactlyOneRow(rows, scanDead)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	if err != nil {
		return letter, err
	}
	var scope int32
	if err := tx.QueryRow(ctx, pgsql.In(s.schema, pgsql.RemoveDead), id).Scan(&scope); err != nil {
		return letter, err
	}
	if letter.State > store.Waiting || len(letter.Order) == 0 {
		return letter, nil
	}
	order := orderID(letter.Order)
	if err := s.release(ctx, tx, []int32{scope}, []pgtype.UUID{order}); err != nil {
		return letter, err
	}
	// Whoever was ahead may have gone while the lock was waited for, so this looks last.
	var ahead bool
	err = tx.QueryRow(ctx, pgsql.In(s.schema, pgsql.IsBehind), scope, order, id).Scan(&ahead)
	if err == nil && ahead {
		err = store.ErrBehind
	}
	return letter, err
}

// release ends the parking of those ordering keys of which no letter is left. It locks them all
// first: a message that goes behind one at this moment has to be seen.
func (s *Store) release(ctx context.Context, tx pgx.Tx, scopes []int32, orders []pgtype.UUID) error {
	if _, err := tx.Exec(ctx, pgsql.In(s.schema, pgsql.HoldKeys), scopes, orders); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, pgsql.In(s.schema, pgsql.ReleaseKeys), scopes, orders)
	return err
}

// FailDead implements [store.DeadLetters].
func (s *Store) FailDead(ctx context.Context, id int64, reason string) error {
	tag, err := s.exec(ctx, pgsql.In(s.schema, pgsql.FailDead), id, pgsql.CleanText(reason))
	if err == nil && tag.RowsAffected() == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("pgstore: note the failure of dead letter %d: %w", id, s.own(err))
	}
	return nil
}

// DiscardDead implements [store.DeadLetters].
func (s *Store) DiscardDead(ctx context.Context, ids ...int64) (int, error) {
	n := 0
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, pgsql.In(s.schema, pgsql.DiscardDead), ids)
		if err != nil {
			return err
		}
		var scopes []int32
		var orders []pgtype.UUID
		var scope int32
		var order pgtype.UUID
		tag, err := pgx.ForEachRow(rows, []any{&scope, &order}, func() error {
			if order.Valid {
				scopes, orders = append(scopes, scope), append(orders, order)
			}
			return nil
		})
		n = int(tag.RowsAffected())
		if err != nil || len(orders) == 0 {
			return err
		}
		return s.release(ctx, tx, scopes, orders)
	})
	if err != nil {
		return 0, fmt.Errorf("pgstore: discard %d dead letters: %w", len(ids), s.own(err))
	}
	return n, nil
}
