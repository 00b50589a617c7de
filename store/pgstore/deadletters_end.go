package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
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
	if _, err := tx.Exec(ctx, "select set_config('lock_timeout', $1, true)", s.sql.lockTimeout); err != nil {
		return store.DeadLetter{}, err
	}
	rows, err := tx.Query(ctx, s.selectDead()+" where d.id = $1 for update of d", id)
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
	if letter.State > store.Waiting || len(letter.Order) == 0 {
		_, err = tx.Exec(ctx, "delete from "+s.schema+".dead_letters where id = $1", id)
		return letter, err
	}
	var scope int32
	if err := tx.QueryRow(ctx, "delete from "+s.schema+".dead_letters where id = $1 returning scope", id).Scan(&scope); err != nil {
		return letter, err
	}
	order := orderID(letter.Order)
	if err := s.release(ctx, tx, []int32{scope}, []pgtype.UUID{order}); err != nil {
		return letter, err
	}
	// Whoever was ahead may have gone while the lock was waited for, so this looks last.
	var ahead bool
	err = tx.QueryRow(ctx, "select exists (select from "+s.schema+".dead_letters where scope = $1 and order_id = $2 and state < 2 and id < $3)", scope, order, id).Scan(&ahead)
	if err == nil && ahead {
		err = store.ErrBehind
	}
	return letter, err
}

// release ends the parking of those ordering keys of which no letter is left. It locks them all
// first: a message that goes behind one at this moment has to be seen.
func (s *Store) release(ctx context.Context, tx pgx.Tx, scopes []int32, orders []pgtype.UUID) error {
	_, err := tx.Exec(ctx, `select from `+s.schema+`.parked_keys
		where (scope, order_id) in (select * from unnest($1::int[], $2::uuid[])) order by scope, order_id for update`, scopes, orders)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `delete from `+s.schema+`.parked_keys p
		where (scope, order_id) in (select * from unnest($1::int[], $2::uuid[])) and not exists (
			select from `+s.schema+`.dead_letters d where d.scope = p.scope and d.order_id = p.order_id and d.state < 2)`, scopes, orders)
	return err
}

// FailDead implements [store.DeadLetters].
func (s *Store) FailDead(ctx context.Context, id int64, reason string) error {
	tag, err := s.exec(ctx, "update "+s.schema+".dead_letters set attempts = attempts + 1, reason = $2 where id = $1", id, cleanText(reason))
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
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "delete from "+s.schema+".dead_letters where id = any($1) returning scope, case when state < 2 then order_id end", ids)
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
