package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// ending is one of the ways in which a COMMIT is sent. It marks the first mark, has an effect
// and ends; those that go on ask for the second mark.
type ending struct {
	name string
	end  func(t *testing.T, ctx context.Context, s *pgstore.Store, marks [2]store.Mark, before func()) (store.End, error)
}

var endings = []ending{
	{"commit", func(t *testing.T, ctx context.Context, s *pgstore.Store, marks [2]store.Mark, before func()) (store.End, error) {
		u := begin(t, s, marks[0])
		effect(t, u.Tx())
		before()
		return u.Commit(ctx)
	}},
	{"commit after a savepoint", func(t *testing.T, ctx context.Context, s *pgstore.Store, marks [2]store.Mark, before func()) (store.End, error) {
		u := begin(t, s, marks[0])
		if err := pgx.BeginFunc(ctx, u.Tx(), func(tx pgx.Tx) error { effect(t, tx); return nil }); err != nil {
			t.Fatal(err)
		}
		before()
		return u.Commit(ctx)
	}},
	{"next after a savepoint", func(t *testing.T, ctx context.Context, s *pgstore.Store, marks [2]store.Mark, before func()) (store.End, error) {
		u := begin(t, s, marks[0])
		if err := pgx.BeginFunc(ctx, u.Tx(), func(tx pgx.Tx) error { effect(t, tx); return nil }); err != nil {
			t.Fatal(err)
		}
		before()
		end, _, err := u.Next(ctx, marks[1:])
		_ = u.Rollback(ctx)
		return end, err
	}},
	{"next", func(t *testing.T, ctx context.Context, s *pgstore.Store, marks [2]store.Mark, before func()) (store.End, error) {
		u := begin(t, s, marks[0])
		effect(t, u.Tx())
		before()
		end, _, err := u.Next(ctx, marks[1:])
		_ = u.Rollback(ctx) // of the second mark's, where there is one
		return end, err
	}},
	{"queued commit", func(t *testing.T, ctx context.Context, s *pgstore.Store, marks [2]store.Mark, before func()) (store.End, error) {
		u := begin(t, s.Queued(), marks[0])
		u.Tx().Queue("insert into effects values ('queued')")
		before()
		return u.Commit(ctx)
	}},
	{"queued next", func(t *testing.T, ctx context.Context, s *pgstore.Store, marks [2]store.Mark, before func()) (store.End, error) {
		u := begin(t, s.Queued(), marks[0])
		u.Tx().Queue("insert into effects values ('queued')")
		before()
		end, _, err := u.Next(ctx, marks[1:])
		_ = u.Rollback(ctx) // of the second mark's, where there is one
		return end, err
	}},
}

func effect(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), "insert into effects values ('effect')"); err != nil {
		t.Fatal(err)
	}
}

// A connection that is cut around COMMIT looks the same whether the server has committed or
// not, so the end is unknown, and asking again with the mark finds the truth.
func TestLostCommitIsUnknown(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	direct := newStore(t, pool)
	scope, name := scopeOf(t, direct), named("mark %d")
	proxy := servertest.Proxy(t, pool.Config().ConnString())
	s := newStore(t, newPool(t, proxy.DSN()))
	effects := 0
	for _, fault := range []servers.CommitFault{servers.LoseCommit, servers.LoseAnswer} {
		for _, way := range endings {
			t.Run(fault.String()+", "+way.name, func(t *testing.T) {
				marks := [2]store.Mark{plainMark(scope, name()), plainMark(scope, name())}
				var armed *servers.ArmedFault
				end, err := way.end(t, t.Context(), s, marks, func() { armed = proxy.Arm(fault, 1) })
				wantEnd(t, end, err, store.Unknown)
				if armed.Hits() != 1 {
					t.Fatal("the fault did not strike")
				}
				if f := s.Fault(err); f != store.FaultOutage {
					t.Errorf("the fault is %s, want outage", f)
				}
				status := store.New
				if fault == servers.LoseAnswer {
					status = store.Seen
					effects++
				}
				wantMark(t, direct, marks[0], status)
				wantMark(t, direct, marks[1], store.New)
				wantEffects(t, pool, effects)
				// The pool has given up the broken connection.
				wantMark(t, s, marks[0], status)
			})
		}
	}
}

func TestEndedContextBeforeCommitRollsBack(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	scope, name := scopeOf(t, s), named("mark %d")
	for _, way := range endings {
		t.Run(way.name, func(t *testing.T) {
			marks := [2]store.Mark{plainMark(scope, name()), plainMark(scope, name())}
			ctx, cancel := context.WithCancel(t.Context())
			end, err := way.end(t, ctx, s, marks, cancel)
			wantEnd(t, end, err, store.RolledBack, context.Canceled)
			if f := s.Fault(err); f != store.FaultCanceled {
				t.Errorf("the fault is %s, want canceled", f)
			}
			wantMark(t, s, marks[0], store.New)
			wantMark(t, s, marks[1], store.New)
			wantEffects(t, pool, 0)
		})
	}
}

func TestContextThatEndsDuringCommitIsUnknown(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	scope, name := scopeOf(t, newStore(t, pool)), named("mark %d")
	for _, way := range endings {
		t.Run(way.name, func(t *testing.T) {
			proxy := servertest.Proxy(t, pool.Config().ConnString())
			s := newStore(t, newPool(t, proxy.DSN()))
			// What is prepared before the network freezes is not what this test is about.
			warm := [2]store.Mark{plainMark(scope, name()), plainMark(scope, name())}
			if _, err := way.end(t, t.Context(), s, warm, func() {}); err != nil {
				t.Fatal(err)
			}
			marks := [2]store.Mark{plainMark(scope, name()), plainMark(scope, name())}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			end, err := way.end(t, ctx, s, marks, func() {
				proxy.Freeze()
				time.AfterFunc(50*time.Millisecond, cancel)
			})
			proxy.Thaw()
			wantEnd(t, end, err, store.Unknown)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v, want one that is the context's", err)
			}
		})
	}
}
