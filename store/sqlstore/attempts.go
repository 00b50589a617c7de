package sqlstore

import (
	"context"
	"fmt"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// Spend implements [store.Attempts]. Where its answer is lost, the failure may have been counted,
// and counts again when the caller repeats it: a message is given up one attempt too early
// rather than never.
//
// It is one statement, which commits by itself. Rivals wait for each other at the row, so each of
// them gets a number of its own.
func (s *Store) Spend(ctx context.Context, scope store.Scope, key store.Key) (n int, err error) {
	if err := s.scanRow(ctx, []any{&n}, pgsql.Spend, int64(scope), key.ID.String(), key.Timed); err != nil {
		return 0, fmt.Errorf("sqlstore: count an attempt at %s: %w", key.ID, s.own(ctx, err))
	}
	return n, nil
}

// Start implements [store.Attempts], in one statement like Spend.
func (s *Store) Start(ctx context.Context, scope store.Scope, key store.Key, starter string) (t store.Tally, err error) {
	if err := s.scanRow(ctx, []any{&t.Spent, &t.Starts}, pgsql.Start, int64(scope), key.ID.String(), key.Timed, starter); err != nil {
		return store.Tally{}, fmt.Errorf("sqlstore: count a start of %s: %w", key.ID, s.own(ctx, err))
	}
	return t, nil
}

// Survive implements [store.Attempts].
func (s *Store) Survive(ctx context.Context, scope store.Scope, key store.Key, starter string) error {
	if _, err := s.exec(ctx, pgsql.Survive, int64(scope), key.ID.String(), key.Timed, starter); err != nil {
		return fmt.Errorf("sqlstore: take the start of %s back: %w", key.ID, s.own(ctx, err))
	}
	return nil
}

// Forget implements [store.Attempts].
func (s *Store) Forget(ctx context.Context, scope store.Scope, key store.Key) error {
	if _, err := s.exec(ctx, pgsql.Forget, int64(scope), key.ID.String(), key.Timed); err != nil {
		return fmt.Errorf("sqlstore: forget the attempts at %s: %w", key.ID, s.own(ctx, err))
	}
	return nil
}

// Enter implements [store.Attempts]. Whoever is the first of all, or is still there himself, enters
// in order: nobody can have died. The name has to be another one in each run of a process.
func (s *Store) Enter(ctx context.Context, scope store.Scope, log string, partition int, owner string) (orderly bool, err error) {
	if err := s.scanRow(ctx, []any{&orderly}, pgsql.Enter, int64(scope), []byte(log), int64(partition), owner); err != nil {
		return false, fmt.Errorf("sqlstore: enter %s/%d as %q: %w", log, partition, owner, s.own(ctx, err))
	}
	return orderly, nil
}

// Leave implements [store.Attempts].
func (s *Store) Leave(ctx context.Context, scope store.Scope, log string, partition int, owner string) error {
	if _, err := s.exec(ctx, pgsql.Leave, int64(scope), []byte(log), int64(partition), owner); err != nil {
		return fmt.Errorf("sqlstore: leave %s/%d as %q: %w", log, partition, owner, s.own(ctx, err))
	}
	return nil
}
