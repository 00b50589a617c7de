package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
)

// Scope implements [store.Marks]. It also compares the version of the tables with that
// of this package, so whoever asks for its scope first learns of a migration that was not run.
// Names are as [store.CheckConsumer] wants them.
func (s *Store) Scope(ctx context.Context, consumer string) (store.Scope, error) {
	if known, ok := s.scopes.Load(consumer); ok {
		return known.(store.Scope), nil
	}
	if err := store.CheckConsumer(consumer); err != nil {
		return 0, &setupError{fmt.Errorf("pgstore: scope: %w", err), "nothing was stored"}
	}
	scope, err := s.internScope(ctx, consumer)
	if err != nil {
		return 0, fmt.Errorf("pgstore: scope of consumer %q: %w", consumer, s.own(err))
	}
	s.scopes.Store(consumer, scope)
	return scope, nil
}

// internScope looks before it inserts: an insert that conflicts uses up a number of the
// sequence, and the name is nearly always there. The read after a lost race sees the
// winner's row because each statement here is a transaction of its own.
func (s *Store) internScope(ctx context.Context, consumer string) (store.Scope, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()

	var version int
	if err := conn.QueryRow(ctx, "select coalesce(max(version), 0) from "+s.schema+".migrations").Scan(&version); err != nil {
		return 0, err
	}
	if want := latestVersion(); version < want {
		return 0, &setupError{fmt.Errorf("schema %s is at version %d and this package needs %d", s.schema, version, want), "run pgstore.Migrate"}
	}
	var scope store.Scope
	for range 2 {
		err = conn.QueryRow(ctx, "select id from "+s.schema+".scopes where name = $1", consumer).Scan(&scope)
		if !errors.Is(err, pgx.ErrNoRows) {
			return scope, err
		}
		if _, err = conn.Exec(ctx, "insert into "+s.schema+".scopes (name) values ($1) on conflict (name) do nothing", consumer); err != nil {
			return 0, err
		}
	}
	err = conn.QueryRow(ctx, "select id from "+s.schema+".scopes where name = $1", consumer).Scan(&scope)
	return scope, err
}
