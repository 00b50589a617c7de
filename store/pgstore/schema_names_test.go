package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func TestSchemaNames(t *testing.T) {
	t.Parallel()
	dsn := servertest.Postgres(t)
	for _, schema := range []string{
		`quo"ted`, "a'b", "with space", "UPPER", "100%d", "$1", "{schema}", "zürich", `back\slash`, "--", strings.Repeat("x", 63), "PG_upper",
	} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
			pool := newPool(t, dsn, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode, c.MaxConns = mode, 2 })
			if err := pgstore.Migrate(t.Context(), pool, pgstore.WithSchema(schema), fewPartitions); err != nil {
				t.Fatal(err)
			}
			s := newStore(t, pool, pgstore.WithSchema(schema))
			scope, name := scopeOf(t, s), mode.String()
			u := begin(t, s, plainMark(scope, name))
			now := time.Now()
			end, _, err := u.Next(t.Context(), []store.Mark{timedMark(scope, now, name), timedMark(scope, now.Add(time.Hour), name)})
			wantEnd(t, end, err, store.Committed)
			if err := s.BuryTx(t.Context(), u.Tx(), store.DeadLetter{Consumer: "consumer", Reason: "no"}); err != nil {
				t.Fatal(err)
			}
			end, err = u.Commit(t.Context())
			wantEnd(t, end, err, store.Committed)
			if _, err := s.ListDead(t.Context(), store.LetterFilter{}, 0, 1); err != nil {
				t.Error(err)
			}
			c, err := s.Claim(t.Context(), store.LeaseKey{byte(mode)}, store.ClaimParams{Lease: time.Minute, Keep: time.Minute})
			if err != nil || c.State != store.Fresh {
				t.Error(c.State, err)
			}
		}
		if _, err := pgstore.Migrations(schema); err != nil {
			t.Error(err)
		}
	}
}

func TestSchemaNamesThatCannotBe(t *testing.T) {
	t.Parallel()
	pool := new(pgxpool.Pool)
	for schema, want := range map[string]string{
		"":                      `pgstore: WithSchema: the name is empty; leave the option out for "semel"`,
		strings.Repeat("x", 64): `pgstore: WithSchema("` + strings.Repeat("x", 64) + `"): the name has 64 bytes where PostgreSQL takes 63`,
		"a\x00b":                `pgstore: WithSchema("a\x00b"): the name contains a NUL byte`,
		"pg_mine":               `pgstore: WithSchema("pg_mine"): names that begin with pg_ belong to PostgreSQL`,
		"a\xff":                 `pgstore: WithSchema("a\xff"): the name is not UTF-8`,
	} {
		if _, err := pgstore.New(pool, pgstore.WithSchema(schema)); err == nil || err.Error() != want {
			t.Errorf("New: %v\nwant: %s", err, want)
		}
		if _, err := pgstore.Migrations(schema); err == nil || err.Error() != want {
			t.Errorf("Migrations: %v\nwant: %s", err, want)
		}
		err := pgstore.Migrate(t.Context(), pool, pgstore.WithSchema(schema))
		if want := strings.Replace(want, "pgstore: ", "pgstore: migrate: ", 1); err == nil || err.Error() != want {
			t.Errorf("Migrate: %v\nwant: %s", err, want)
		}
	}
}
