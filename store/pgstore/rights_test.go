package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// asRole makes a role that owns nothing and a pool whose sessions are that role's.
func asRole(t *testing.T, pool *pgxpool.Pool) (role string, limited *pgxpool.Pool) {
	t.Helper()
	role = "role_of_" + queryOne[string](t, pool, "select current_database()::text")
	exec(t, pool, "create role "+role)
	limited = newPool(t, pool.Config().ConnString(), func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "set role "+role)
			return err
		}
	})
	t.Cleanup(func() {
		limited.Close()
		ctx := context.Background()
		for _, sql := range []string{"drop owned by " + role, "drop role " + role} {
			if _, err := pool.Exec(ctx, sql); err != nil {
				t.Error(err)
			}
		}
	})
	return role, limited
}

// The rights that the package comment asks for at run time are enough for everything.
func TestRoleThatOwnsNothing(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	role, limited := asRole(t, pool)
	exec(t, pool, fmt.Sprintf("grant usage on schema semel to %s; grant select, insert, update, delete on all tables in schema semel to %s; grant insert on effects to %s", role, role, role))
	s := newStore(t, limited)
	ctx, scope, now := t.Context(), scopeOf(t, s), time.Now()

	u := begin(t, s, plainMark(scope, "a"))
	effect(t, u.Tx())
	end, _, err := u.Next(ctx, []store.Mark{
		plainMark(scope, "b"), plainMark(scope, "c"),
		timedMark(scope, now, "b"), timedMark(scope, now, "c"),
		timedMark(scope, now.AddDate(-500, 0, 0), "rest"),
	})
	wantEnd(t, end, err, store.Committed)
	if err := s.BuryTx(ctx, u.Tx(), store.DeadLetter{Consumer: "consumer", Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	err = s.AppendTx(ctx, u.Tx(), []store.Event{{ID: store.NewID(), Destination: "kafka", Topic: "t", Type: "e"}})
	if err != nil {
		t.Fatal(err)
	}
	end, _, err = u.Next(ctx, []store.Mark{timedMark(scope, now, "one")})
	wantEnd(t, end, err, store.Committed)
	end, err = u.Commit(ctx)
	wantEnd(t, end, err, store.Committed)

	dead, err := s.ListDead(ctx, store.LetterFilter{Consumer: "consumer"}, 0, 10)
	if err != nil || len(dead) != 1 {
		t.Fatal(dead, err)
	}
	if _, err := s.GetDead(ctx, dead[0].ID); err != nil {
		t.Error(err)
	}
	if n, err := s.DiscardDead(ctx, dead[0].ID); n != 1 || err != nil {
		t.Error(n, err)
	}

	terms := store.ClaimParams{Lease: time.Minute, Keep: time.Minute}
	c, err := s.Claim(ctx, store.LeaseKey{1}, terms)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = s.Extend(ctx, c, time.Minute); err != nil {
		t.Error(err)
	}
	if err := s.Release(ctx, c); err != nil {
		t.Error(err)
	}
	if c, err = s.Claim(ctx, store.LeaseKey{1}, terms); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(ctx, c, []byte("done")); err != nil {
		t.Error(err)
	}

	// What there is already it may find; to make anything it needs another role.
	if err := pgstore.Migrate(ctx, limited, fewPartitions); err != nil {
		t.Errorf("Migrate with nothing to do: %v", err)
	}
	for what, opts := range map[string][]pgstore.MigrateOption{
		"a partition":    {pgstore.WithPartitions(365*24*time.Hour, 3*365*24*time.Hour)},
		"another schema": {pgstore.WithSchema("other"), fewPartitions},
	} {
		err := pgstore.Migrate(ctx, limited, opts...)
		wantCode(t, err, "42501")
		if err == nil || !strings.Contains(err.Error(), "run it with the role that owns the schema, or with one that may create it") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Whatever is not ready is a person's to mend, and the sentence says how.
func TestDatabaseThatIsNotReady(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	exec(t, pool, "create schema half")
	for _, schema := range []string{"older", "gone", "reading"} {
		if err := pgstore.Migrate(t.Context(), pool, pgstore.WithSchema(schema), fewPartitions); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, pool, "delete from older.migrations where version = (select max(version) from older.migrations)")
	exec(t, pool, "drop table gone.marks_plain")
	role, limited := asRole(t, pool)
	exec(t, pool, fmt.Sprintf("grant usage on schema reading to %s; grant select on all tables in schema reading to %s", role, role))

	const migrate, rights = "run pgstore.Migrate", `the role needs USAGE on schema %q and SELECT, INSERT, UPDATE, DELETE on its tables`
	for schema, c := range map[string]struct {
		pool *pgxpool.Pool
		want string
	}{
		"missing": {pool, migrate},
		"half":    {pool, migrate},
		"older":   {pool, migrate},
		"gone":    {pool, migrate},
		"semel":   {limited, fmt.Sprintf(rights, "semel")},
		"reading": {limited, fmt.Sprintf(rights, "reading")},
	} {
		s := newStore(t, c.pool, pgstore.WithSchema(schema))
		scope, err := s.Scope(t.Context(), "consumer", store.Forever)
		if err == nil {
			var u store.Unit[pgx.Tx]
			if u, _, err = s.Begin(t.Context(), []store.Mark{plainMark(scope, "m")}); err == nil {
				_ = u.Rollback(t.Context())
			}
		}
		if err == nil || s.Fault(err) != store.FaultSetup || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (%s), want %q in it", schema, err, s.Fault(err), c.want)
		}
	}

	// The same in a handler, through a method of the store's.
	s := newStore(t, pool)
	u := begin(t, s, plainMark(scopeOf(t, s), "m"))
	if _, err := u.Tx().Exec(t.Context(), "alter table semel.dead_letters rename to elsewhere"); err != nil {
		t.Fatal(err)
	}
	err := s.BuryTx(t.Context(), u.Tx(), store.DeadLetter{Consumer: "consumer"})
	if f := u.Fault(err); f != store.FaultSetup {
		t.Errorf("%v is %s, want setup", err, f)
	}
}

// A handler's own missing table or right is the handler's affair, not the store's.
func TestHandlersOwnMissingTable(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	u := begin(t, s, plainMark(scopeOf(t, s), "m"))
	_, err := u.Tx().Exec(t.Context(), "select * from nowhere")
	wantCode(t, err, "42P01")
	if f := u.Fault(err); f != store.FaultHandler {
		t.Errorf("the fault is %s, want handler", f)
	}
}
