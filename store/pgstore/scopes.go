package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// Scope implements [store.Marks]. It also compares the version of the tables with that
// of this package, so whoever asks for its scope first learns of a migration that was not run.
// Names are as [store.CheckConsumer] wants them.
func (s *Store) Scope(ctx context.Context, consumer string, keep time.Duration) (store.Scope, error) {
	asked := pgsql.ScopeQuestion{Consumer: consumer, Keep: keep}
	if known, ok := s.scopes.Load(asked); ok {
		return known.(store.Scope), nil
	}
	if err := asked.Check(); err != nil {
		return 0, &setupError{fmt.Errorf("pgstore: %w", err), "nothing was stored"}
	}
	scope, err := s.internScope(ctx, consumer, pgsql.KeepMillis(keep))
	if err != nil {
		return 0, fmt.Errorf("pgstore: scope of consumer %q: %w", consumer, s.own(err))
	}
	s.scopes.Store(asked, scope)
	return scope, nil
}

// internScope: the read after a lost race sees the winner's row because each statement here is a
// transaction of its own.
func (s *Store) internScope(ctx context.Context, consumer string, keep *int64) (store.Scope, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()

	var version int
	if err := conn.QueryRow(ctx, pgsql.In(s.schema, pgsql.TablesVersion)).Scan(&version); err != nil {
		return 0, err
	}
	if err := pgsql.CheckVersion(s.schema, version, latestVersion()); err != nil {
		return 0, &setupError{err, "run pgstore.Migrate"}
	}
	for {
		var scope store.Scope
		var same bool
		err := conn.QueryRow(ctx, pgsql.In(s.schema, pgsql.FindScope), consumer, keep).Scan(&scope, &same)
		switch {
		case err == nil && same:
			return scope, nil
		case err == nil:
			_, err = conn.Exec(ctx, pgsql.In(s.schema, pgsql.KeepScope), scope, keep)
			return scope, err
		case !errors.Is(err, pgx.ErrNoRows):
			return 0, err
		}
		if _, err := conn.Exec(ctx, pgsql.In(s.schema, pgsql.AddScope), consumer, keep); err != nil {
			return 0, err
		}
	}
}
