package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// Scope implements [store.Marks]. It also looks at the version of the tables, so whoever asks for
// its scope first learns of a migration that was not run. Names are as [store.CheckConsumer] wants
// them.
func (s *Store) Scope(ctx context.Context, consumer string, keep time.Duration) (store.Scope, error) {
	asked := pgsql.ScopeQuestion{Consumer: consumer, Keep: keep}
	if known, ok := s.scopes.Load(asked); ok {
		return known.(store.Scope), nil
	}
	if err := asked.Check(); err != nil {
		return 0, setup(fmt.Errorf("sqlstore: %w", err), "nothing was stored")
	}
	scope, err := s.internScope(ctx, consumer, pgsql.KeepMillis(keep))
	if err != nil {
		return 0, fmt.Errorf("sqlstore: scope of consumer %q: %w", consumer, s.own(ctx, err))
	}
	s.scopes.Store(asked, scope)
	return scope, nil
}

// internScope: the read after a lost race sees the winner's row because each statement here is a
// transaction of its own.
func (s *Store) internScope(ctx context.Context, consumer string, keepMillis *int64) (store.Scope, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()

	var version int
	if err := conn.QueryRowContext(ctx, s.in(pgsql.TablesVersion)).Scan(&version); err != nil {
		return 0, err
	}
	if err := pgsql.CheckVersion(s.schema, version, pgsql.Version); err != nil {
		return 0, setup(err, "run pgstore.Migrate")
	}
	var keep any
	if keepMillis != nil {
		keep = *keepMillis
	}
	for {
		var scope store.Scope
		var same bool
		err := conn.QueryRowContext(ctx, s.in(pgsql.FindScope), consumer, keep).Scan(&scope, &same)
		switch {
		case err == nil && same:
			return scope, nil
		case err == nil:
			_, err = conn.ExecContext(ctx, s.in(pgsql.KeepScope), int64(scope), keep)
			return scope, err
		case !errors.Is(err, sql.ErrNoRows):
			return 0, err
		}
		if _, err := conn.ExecContext(ctx, s.in(pgsql.AddScope), consumer, keep); err != nil {
			return 0, err
		}
	}
}
