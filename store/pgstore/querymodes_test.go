package pgstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/store"
)

// The store must work however the pool sends its statements.
func TestEveryQueryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			ctx := t.Context()
			pool := migrated(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			s := newStore(t, pool)
			scope, err := s.Scope(ctx, "modes", store.Forever)
			if err != nil {
				t.Fatal(err)
			}
			at := time.UnixMilli(1_700_000_000_123)
			one := store.Mark{Scope: scope, Key: store.DigestKey([]byte("one"))}
			marks := []store.Mark{
				one,
				{Scope: scope, Key: store.TimedKey(at, []byte("a")), Time: at},
				{Scope: scope, Key: store.TimedKey(at, []byte("b")), Time: at},
				{Scope: scope, Key: store.DigestKey([]byte("c")), Time: at},
				{Scope: scope, Key: store.DigestKey([]byte("d"))},
				{Scope: scope, Key: store.TimedKey(at, []byte("a")), Time: at},
			}

			u, status, err := s.Begin(ctx, []store.Mark{one})
			if err != nil || status[0] != store.New {
				t.Fatal(status, err)
			}
			if _, err := u.Tx().Exec(ctx, "insert into effects values ($1)", "one"); err != nil {
				t.Fatal(err)
			}
			end, status, err := u.Next(ctx, marks)
			if err != nil || end != store.Committed {
				t.Fatal(end, err)
			}
			want := []store.Status{store.Seen, store.New, store.New, store.New, store.New, store.Seen}
			for i := range want {
				if status[i] != want[i] {
					t.Errorf("mark %d is %s, want %s", i, status[i], want[i])
				}
			}
			if end, err := u.Commit(ctx); err != nil || end != store.Committed {
				t.Fatal(end, err)
			}
			if n := queryOne[int64](t, pool, "select count(*) from semel.marks_timed"); n != 2 {
				t.Errorf("%d timed marks, want 2", n)
			}
			if n := queryOne[int64](t, pool, "select count(*) from semel.marks_plain"); n != 3 {
				t.Errorf("%d plain marks, want 3", n)
			}

			claim, err := s.Claim(ctx, store.LeaseKey{1}, store.ClaimParams{Lease: time.Minute, Keep: time.Minute, Fingerprint: []byte{0}})
			if err != nil || claim.State != store.Fresh {
				t.Fatal(claim, err)
			}
			if err := s.Complete(ctx, claim, []byte{0, 255}); err != nil {
				t.Fatal(err)
			}

			u, _, err = s.Begin(ctx, []store.Mark{{Scope: scope, Key: store.DigestKey([]byte("dead"))}})
			if err != nil {
				t.Fatal(err)
			}
			err = s.BuryTx(ctx, u.Tx(), store.DeadLetter{Consumer: "modes", Broker: "kafka", Topic: "t\x00", Log: "l", Reason: "bad \xff",
				Headers: []store.Header{{Key: "h", Value: []byte{0, 254}}, {Key: "empty"}}, Body: []byte{}, Attempts: 3})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := u.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			dead, err := s.ListDead(ctx, store.LetterFilter{Consumer: "modes"}, 0, 10)
			if err != nil || len(dead) != 1 {
				t.Fatal(dead, err)
			}
			if d := dead[0]; d.Body == nil || d.MessageKey != nil || d.Topic != "t\x00" || len(d.Headers) != 2 || string(d.Headers[0].Value) != "\x00\xfe" {
				t.Errorf("the dead letter came back as %+v", d)
			}
		})
	}
}
