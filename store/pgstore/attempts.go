package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

var _ store.Attempts = (*Store)(nil)

// Spend implements [store.Attempts]. Where its answer is lost, the failure may have been counted,
// and counts again when the caller repeats it: a message is given up one attempt too early
// rather than never.
//
// It is one statement, which commits by itself. Rivals wait for each other at the row, so each of
// them gets a number of its own.
func (s *Store) Spend(ctx context.Context, scope store.Scope, key store.Key) (n int, err error) {
	err = s.scanRow(ctx, []any{&n}, pgsql.In(s.schema, pgsql.Spend), int32(scope), uuidOf(key), key.Timed)
	if err != nil {
		return 0, fmt.Errorf("pgstore: count an attempt at %s: %w", key.ID, s.own(err))
	}
	return n, nil
}

// Start implements [store.Attempts], in one statement like Spend.
func (s *Store) Start(ctx context.Context, scope store.Scope, key store.Key, starter string) (t store.Tally, err error) {
	err = s.scanRow(ctx, []any{&t.Spent, &t.Starts}, pgsql.In(s.schema, pgsql.Start), int32(scope), uuidOf(key), key.Timed, starter)
	if err != nil {
		return store.Tally{}, fmt.Errorf("pgstore: count a start of %s: %w", key.ID, s.own(err))
	}
	return t, nil
}

// Survive implements [store.Attempts].
func (s *Store) Survive(ctx context.Context, scope store.Scope, key store.Key, starter string) error {
	_, err := s.exec(ctx, pgsql.In(s.schema, pgsql.Survive), int32(scope), uuidOf(key), key.Timed, starter)
	if err != nil {
		return fmt.Errorf("pgstore: take the start of %s back: %w", key.ID, s.own(err))
	}
	return nil
}

// Forget implements [store.Attempts].
func (s *Store) Forget(ctx context.Context, scope store.Scope, key store.Key) error {
	_, err := s.exec(ctx, pgsql.In(s.schema, pgsql.Forget), int32(scope), uuidOf(key), key.Timed)
	if err != nil {
		return fmt.Errorf("pgstore: forget the attempts at %s: %w", key.ID, s.own(err))
	}
	return nil
}

// Enter implements [store.Attempts]. Whoever is the first of all, or is still there himself, enters
// in order: nobody can have died. The name has to be another one in each run of a process.
func (s *Store) Enter(ctx context.Context, scope store.Scope, log string, partition int, owner string) (orderly bool, err error) {
	err = s.scanRow(ctx, []any{&orderly}, pgsql.In(s.schema, pgsql.Enter), int32(scope), []byte(log), int32(partition), owner)
	if err != nil {
		return false, fmt.Errorf("pgstore: enter %s/%d as %q: %w", log, partition, owner, s.own(err))
	}
	return orderly, nil
}

// Leave implements [store.Attempts].
func (s *Store) Leave(ctx context.Context, scope store.Scope, log string, partition int, owner string) error {
	_, err := s.exec(ctx, pgsql.In(s.schema, pgsql.Leave), int32(scope), []byte(log), int32(partition), owner)
	if err != nil {
		return fmt.Errorf("pgstore: leave %s/%d as %q: %w", log, partition, owner, s.own(err))
	}
	return nil
}

func uuidOf(key store.Key) pgtype.UUID { return pgtype.UUID{Bytes: key.ID, Valid: true} }
