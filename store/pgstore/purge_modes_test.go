package pgstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// A purge works in every query mode and in schemas whose names need care.
func TestPurgeInEveryModeAndSchema(t *testing.T) {
	t.Parallel()
	dsn := servertest.Postgres(t)
	for i, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		schema := []string{`quo"ted`, "a'b", "100%d", "$1", "{schema}"}[i]
		pool := newPool(t, dsn, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode, c.MaxConns = mode, 2 })
		if err := pgstore.Migrate(t.Context(), pool, pgstore.WithSchema(schema), pgstore.WithPartitions(week, 0)); err != nil {
			t.Fatal(err)
		}
		purgesAndCounts(t, newStore(t, pool, pgstore.WithSchema(schema)), mode.String()+" in "+schema)
	}
}

// And behind a pooler that gives each transaction another session.
func TestPurgeBehindATransactionPooler(t *testing.T) {
	t.Parallel()
	dsn := servertest.Postgres(t)
	if err := pgstore.Migrate(t.Context(), newPool(t, dsn), pgstore.WithPartitions(week, 0)); err != nil {
		t.Fatal(err)
	}
	pooled := newPool(t, startPooler(t, dsn, 2), func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode, c.MaxConns = pgx.QueryExecModeExec, 3
	})
	purgesAndCounts(t, newStore(t, pooled), "pooler")
	for range 6 {
		if limit := queryOne[string](t, pooled, "select current_setting('lock_timeout') || current_setting('synchronous_commit')"); limit != "0on" {
			t.Errorf("a session was left with %s", limit)
		}
	}
}

func purgesAndCounts(t *testing.T, s *pgstore.Store, where string) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	scope := keptScope(t, s, "consumer", 2*day)
	key := store.DigestKey([]byte("m"))
	if n, err := s.Spend(ctx, scope, key); n != 1 || err != nil {
		t.Errorf("%s: %d, %v", where, n, err)
	}
	if err := s.Forget(ctx, scope, key); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	if orderly, err := s.Enter(ctx, scope, "log", 0, "a"); !orderly || err != nil {
		t.Errorf("%s: %t, %v", where, orderly, err)
	}
	if err := s.Leave(ctx, scope, "log", 0, "a"); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	for _, age := range []time.Duration{300 * day, 17 * day, 16 * day, time.Hour} {
		commitMarks(t, s, aged(scope, now.Add(-age), age.String())...)
	}
	if err := s.Reached(ctx, scope, []store.Reach{{Log: "log", Newest: now}, {Log: "log", Partition: 1, Newest: now.Add(-time.Minute)}, {Log: "other", Newest: now}}); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	// Small steps, so that each begins where the last one ended.
	done := purge(t, s, pgstore.WithDeleteRate(1_000_000, 1))
	if rows := done.Rows(); rows < 4 || len(done.Locked) != 0 || len(done.Made) == 0 {
		t.Errorf("%s: %d rows, emptied %v, locked %v, made %v", where, rows, done.Emptied, done.Locked, done.Made)
	}
	for _, age := range []time.Duration{300 * day, 17 * day, 16 * day} {
		for _, mark := range aged(scope, now.Add(-age), age.String()) {
			wantMark(t, s, mark, store.Late)
		}
	}
	for _, mark := range aged(scope, now.Add(-time.Hour), time.Hour.String()) {
		wantMark(t, s, mark, store.Seen)
	}
	all, err := s.Retention(ctx)
	if err != nil || len(all) != 1 || len(all[0].Reaches) != 3 || all[0].Reaches[0].Partition != 1 {
		t.Errorf("%s: %+v, %v", where, all, err)
	}
	if there, err := s.ForgetPartition(ctx, "consumer", "other", 0); !there || err != nil {
		t.Errorf("%s: %t, %v", where, there, err)
	}
}
