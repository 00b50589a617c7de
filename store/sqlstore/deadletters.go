package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// BuryTx implements [store.Burier].
func (s *Store) BuryTx(ctx context.Context, tx *sql.Tx, d store.DeadLetter) error {
	names, values := make([][]byte, len(d.Headers)), make([][]byte, len(d.Headers))
	for i, h := range d.Headers {
		names[i] = []byte(h.Key)
		// An array has no nil element here: a header without a value has an empty one.
		values[i] = append([]byte{}, h.Value...)
	}
	_, err := tx.ExecContext(ctx, s.in(pgsql.Bury),
		d.Consumer, d.Key.ID.String(), d.Key.Timed, append([]byte{}, d.KeyText...),
		pgsql.CleanText(d.Broker), []byte(d.Topic), []byte(d.Log), int64(d.Partition), d.Offset,
		nullTime(pgsql.Clamp(d.Time)),
		nullBytes(d.MessageKey), bytesArray(names), bytesArray(values), nullBytes(d.Body), pgsql.CleanText(d.Reason), int64(d.Attempts),
		int64(d.State), nullBytes(d.Order), nullID(orderID(d.Order)))
	if err != nil {
		return fmt.Errorf("sqlstore: bury a message of %q: %w", d.Consumer, s.own(ctx, err))
	}
	return nil
}

// orderID is zero without an ordering key.
func orderID(order []byte) store.ID {
	if len(order) == 0 {
		return store.ID{}
	}
	return store.OrderID(order)
}

// Revive implements [store.Reviver].
func (s *Store) Revive(ctx context.Context, id int64) (store.Unit[*sql.Tx], store.DeadLetter, error) {
	return s.revive(ctx, mode{keys: true}, id)
}

func (s *Store) revive(ctx context.Context, by mode, id int64) (store.Unit[*sql.Tx], store.DeadLetter, error) {
	u, _, err := s.begin(ctx, by, nil)
	if err != nil {
		return nil, store.DeadLetter{}, err
	}
	letter, err := u.takeDead(ctx, id)
	if err != nil {
		err = s.own(ctx, err)
		u.abandon()
		return nil, store.DeadLetter{}, fmt.Errorf("sqlstore: revive dead letter %d: %w", id, err)
	}
	return u, letter, nil
}

// takeDead removes a letter in the transaction. The letter is locked first and its ordering key
// afterwards, here and in [Store.DiscardDead].
func (u *unit) takeDead(ctx context.Context, id int64) (letter store.DeadLetter, err error) {
	if err := u.limitWaits(ctx); err != nil {
		return letter, err
	}
	letter, err = u.s.getDead(ctx, u.tx, pgsql.LockDead, id)
	if err != nil {
		return letter, err
	}
	var scope int32
	if err := u.tx.QueryRowContext(ctx, u.s.in(pgsql.RemoveDead)+withXact, id).Scan(&scope, &u.xact); err != nil {
		return letter, err
	}
	if letter.State > store.Waiting || len(letter.Order) == 0 {
		return letter, nil
	}
	order := orderID(letter.Order)
	if err := u.releaseKeys(ctx, []int32{scope}, []store.ID{order}); err != nil {
		return letter, err
	}
	// Whoever was ahead may have gone while the lock was waited for, so this looks last.
	var ahead bool
	err = u.tx.QueryRowContext(ctx, u.s.in(pgsql.IsBehind), int64(scope), order.String(), id).Scan(&ahead)
	if err == nil && ahead {
		err = store.ErrBehind
	}
	return letter, err
}

func (u *unit) limitWaits(ctx context.Context) error {
	_, err := u.tx.ExecContext(ctx, u.s.config.limits.In(u.s.schema, pgsql.LimitWaits), u.s.sql.lockTimeout)
	return err
}

func (u *unit) releaseKeys(ctx context.Context, scopes []int32, orders []store.ID) error {
	for _, text := range []string{pgsql.HoldKeys, pgsql.ReleaseKeys} {
		if _, err := u.tx.ExecContext(ctx, u.s.in(text), intArray(scopes), idArray(orders)); err != nil {
			return err
		}
	}
	return nil
}

// FailDead implements [store.DeadLetters].
func (s *Store) FailDead(ctx context.Context, id int64, reason string) error {
	n, err := s.exec(ctx, pgsql.FailDead, id, pgsql.CleanText(reason))
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("sqlstore: note the failure of dead letter %d: %w", id, s.own(ctx, err))
	}
	return nil
}

// DiscardDead implements [store.DeadLetters].
func (s *Store) DiscardDead(ctx context.Context, ids ...int64) (int, error) {
	n, err := s.discardDead(ctx, ids)
	if err != nil {
		return 0, fmt.Errorf("sqlstore: discard %d dead letters: %w", len(ids), s.own(ctx, err))
	}
	return n, nil
}

func (s *Store) discardDead(ctx context.Context, ids []int64) (n int, err error) {
	// Whether a key has a letter left is asked after its lock was waited for, and has to be answered
	// as of then.
	u, err := s.open(ctx, sql.LevelReadCommitted)
	if err != nil {
		return 0, err
	}
	defer u.abandon() // does nothing after the commit
	if err := u.limitWaits(ctx); err != nil {
		return 0, err
	}
	var scopes []int32
	var orders []store.ID
	err = each(ctx, u.tx, func(rows *sql.Rows) error {
		n++
		var scope int32
		var text sql.NullString
		if err := rows.Scan(&scope, &text); err != nil {
			return err
		}
		order, err := readID(text)
		if !order.IsZero() {
			scopes, orders = append(scopes, scope), append(orders, order)
		}
		return err
	}, s.in(pgsql.DiscardDead), intArray(ids))
	if err == nil && orders != nil {
		err = u.releaseKeys(ctx, scopes, orders)
	}
	if err == nil {
		_, err = u.Commit(ctx)
	}
	return n, err
}

// GetDead implements [store.DeadLetters].
func (s *Store) GetDead(ctx context.Context, id int64) (store.DeadLetter, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return store.DeadLetter{}, fmt.Errorf("sqlstore: dead letter %d: %w", id, err)
	}
	defer func() { _ = conn.Close() }()
	d, err := s.getDead(ctx, conn, pgsql.GetDead, id)
	if err != nil {
		return store.DeadLetter{}, fmt.Errorf("sqlstore: dead letter %d: %w", id, s.own(ctx, err))
	}
	return d, nil
}

func (s *Store) getDead(ctx context.Context, q querier, text string, id int64) (store.DeadLetter, error) {
	d, err := scanDead(q.QueryRowContext(ctx, s.in(text), id))
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNotFound
	}
	return d, err
}
