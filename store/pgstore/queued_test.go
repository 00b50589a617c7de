package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// both ends a queued unit in both ways.
func both(t *testing.T, act func(t *testing.T, next bool)) {
	t.Helper()
	for _, next := range []bool{false, true} {
		t.Run(fmt.Sprint("next=", next), func(t *testing.T) { act(t, next) })
	}
}

func endQueued(t *testing.T, u store.Unit[*pgx.Batch], next bool, mark store.Mark) (store.End, error) {
	t.Helper()
	if !next {
		return u.Commit(t.Context())
	}
	end, _, err := u.Next(t.Context(), []store.Mark{mark})
	_ = u.Rollback(t.Context())
	return end, err
}

func TestQueuedFunctionsFailTheMessage(t *testing.T) {
	t.Parallel()
	pool := migrated(t, oneConnection)
	s := newStore(t, pool).Queued()
	scope, name := scopeOf(t, s), named("mark %d")
	refused := errors.New("no such account")
	for what, queue := range map[string]func(b *pgx.Batch){
		"exec": func(b *pgx.Batch) {
			b.Queue("update effects set name = 'x' where name = 'y'").Exec(func(tag pgconn.CommandTag) error {
				if tag.RowsAffected() == 0 {
					return refused
				}
				return nil
			})
		},
		"query": func(b *pgx.Batch) {
			b.Queue("select generate_series(1, 3)").Query(func(rows pgx.Rows) error { return refused })
		},
		"row": func(b *pgx.Batch) {
			b.Queue("select 1").QueryRow(func(row pgx.Row) error { return refused })
		},
	} {
		both(t, func(t *testing.T, next bool) {
			mark := plainMark(scope, name())
			u := begin(t, s, mark)
			u.Tx().Queue("insert into effects values ('before')")
			queue(u.Tx())
			u.Tx().Queue("insert into effects values ('behind')")
			end, err := endQueued(t, u, next, plainMark(scope, name()))
			wantEnd(t, end, err, store.RolledBack, refused)
			if f := s.Fault(err); f != store.FaultHandler {
				t.Errorf("%s: the fault is %s, want handler", what, f)
			}
			wantMark(t, s, mark, store.New)
			wantEffects(t, pool, 0)
		})
	}
	both(t, func(t *testing.T, next bool) {
		u := begin(t, s, plainMark(scope, name()))
		called := 0
		u.Tx().Queue("insert into effects values ('seen') returning 7").QueryRow(func(row pgx.Row) error {
			called++
			return row.Scan(new(int))
		})
		end, err := endQueued(t, u, next, plainMark(scope, name()))
		wantEnd(t, end, err, store.Committed)
		if called != 1 {
			t.Errorf("the function was called %d times", called)
		}
	})
	wantEffects(t, pool, 2)
}

func TestQueuedStatementThatFails(t *testing.T) {
	t.Parallel()
	pool := migrated(t, oneConnection)
	s := newStore(t, pool).Queued()
	scope, name := scopeOf(t, s), named("mark %d")
	for code, sql := range map[string]string{
		"22012": "insert into effects select (1 / (select count(*) from effects where name = 'none'))::text",
		"42P01": "insert into nowhere values (1)",
		"42601": "insert nonsense",
		"23502": "insert into effects values (null)",
	} {
		both(t, func(t *testing.T, next bool) {
			mark := plainMark(scope, name())
			u := begin(t, s, mark)
			u.Tx().Queue("insert into effects values ('before')")
			u.Tx().Queue(sql)
			u.Tx().Queue("insert into effects values ('behind')")
			end, err := endQueued(t, u, next, plainMark(scope, name()))
			wantEnd(t, end, err, store.RolledBack)
			wantCode(t, err, code)
			if f := s.Fault(err); f != store.FaultHandler {
				t.Errorf("the fault is %s, want handler", f)
			}
			wantMark(t, s, mark, store.New)
			wantEffects(t, pool, 0)
		})
	}
}

// Behind a queued ROLLBACK the server answers COMMIT with COMMIT: nothing would be stored and
// the message would count as done.
func TestQueuedTransactionControlIsRefused(t *testing.T) {
	t.Parallel()
	pool := migrated(t, oneConnection)
	s := newStore(t, pool).Queued()
	scope, name := scopeOf(t, s), named("mark %d")
	queue := func(sql string) func(b *pgx.Batch) {
		return func(b *pgx.Batch) {
			b.Queue("insert into effects values ('effect')")
			b.Queue(sql)
		}
	}
	for what, act := range map[string]func(b *pgx.Batch){
		"rollback":    queue("rollback"),
		"commit":      queue(" \n;Commit work"),
		"end":         queue("END;"),
		"abort":       queue("abort transaction"),
		"rollback tx": queue("rollback transaction"),
		"prepare":     queue("prepare transaction 'x'"),
		"BeginTx": func(b *pgx.Batch) {
			b.BeginTx(pgx.TxOptions{})
			b.Queue("insert into effects values ('effect')")
		},
	} {
		both(t, func(t *testing.T, next bool) {
			mark := plainMark(scope, name())
			u := begin(t, s, mark)
			act(u.Tx())
			end, err := endQueued(t, u, next, plainMark(scope, name()))
			if end != store.RolledBack || !errors.Is(err, store.ErrTxControl) {
				t.Errorf("%s: end is %s with error %v", what, end, err)
			}
			wantMark(t, s, mark, store.New)
		})
	}
	wantEffects(t, pool, 0)

	for _, sql := range []string{"rollback to savepoint a", "ROLLBACK WORK TO a", "release a"} {
		u := begin(t, s, plainMark(scope, name()))
		u.Tx().Queue("savepoint a")
		u.Tx().Queue("insert into effects values ('inner')")
		u.Tx().Queue(sql)
		end, err := u.Commit(t.Context())
		wantEnd(t, end, err, store.Committed)
	}
	u := begin(t, s, plainMark(scope, name()))
	u.Tx().Queue("prepare transactions as select 1")
	u.Tx().Queue("with ended as (select 1) insert into effects select 'commit' from ended")
	end, err := u.Commit(t.Context())
	wantEnd(t, end, err, store.Committed)
	wantEffects(t, pool, 2)
}

// The handlers of a batch queue one after another, and the server works in that order.
func TestQueuedStatementsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	exec(t, pool, "create table steps (n int generated always as identity, name text)")
	g, err := dedup.NewTx(newStore(t, pool).Queued(), "consumer", dedup.FromHeader("id"), dedup.Forever, func(_ context.Context, b *pgx.Batch, m dedup.Message) error {
		for _, step := range []string{"a", "b"} {
			b.Queue("insert into steps (name) values ($1)", string(m.Headers[0].Value)+step)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	results := g.ProcessBatch(t.Context(), []dedup.Message{message("3"), message("1"), message("3"), message("2")})
	var outcomes []dedup.Outcome
	for _, r := range results {
		outcomes = append(outcomes, r.Outcome)
	}
	if want := []dedup.Outcome{dedup.Applied, dedup.Applied, dedup.Duplicate, dedup.Applied}; !slices.Equal(outcomes, want) {
		t.Errorf("the outcomes are %v, want %v", outcomes, want)
	}
	if got := queryOne[string](t, pool, "select string_agg(name, ' ' order by n) from steps"); got != "3a 3b 1a 1b 2a 2b" {
		t.Errorf("the steps are %s", got)
	}
	for _, r := range g.ProcessEach(t.Context(), []dedup.Message{message("5"), message("4")}) {
		wantOutcome(t, r, dedup.Applied, 0)
	}
	if got := queryOne[string](t, pool, "select string_agg(name, ' ' order by n) from steps where n > 6"); got != "5a 5b 4a 4b" {
		t.Errorf("the steps are %s", got)
	}
}

// A letter whose scope is unknown must not vanish beside a mark that is committed.
func TestLetterOfUnknownScopeIsNotLost(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	scope := scopeOf(t, s)
	u := begin(t, s, plainMark(scope, "m"))
	wantCode(t, s.BuryTx(t.Context(), u.Tx(), store.DeadLetter{Consumer: "stranger"}), "23502")
	end, err := u.Commit(t.Context())
	wantEnd(t, end, err, store.RolledBack, pgx.ErrTxCommitRollback)

	q := begin(t, s.Queued(), plainMark(scope, "m"))
	if err := s.Queued().BuryTx(t.Context(), q.Tx(), store.DeadLetter{Consumer: "stranger"}); err != nil {
		t.Fatal(err)
	}
	end, err = q.Commit(t.Context())
	wantEnd(t, end, err, store.RolledBack)
	wantCode(t, err, "23502")
}
