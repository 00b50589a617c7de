package sqlstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/sqlstore"
)

// ending is one of the ways in which a COMMIT is sent. It marks the first mark, has an effect
// and ends; what goes on asks for the second mark.
type ending struct {
	name string
	end  func(t *testing.T, ctx context.Context, s *sqlstore.Store, marks [2]store.Mark, before func()) (store.End, error)
}

var endings = []ending{
	{"commit", func(t *testing.T, ctx context.Context, s *sqlstore.Store, marks [2]store.Mark, before func()) (store.End, error) {
		u := begin(t, s, marks[0])
		if err := addNamed(ctx, u.Tx(), "effect"); err != nil {
			t.Fatal(err)
		}
		before()
		return u.Commit(ctx)
	}},
	{"next", func(t *testing.T, ctx context.Context, s *sqlstore.Store, marks [2]store.Mark, before func()) (store.End, error) {
		u := begin(t, s, marks[0])
		if err := addNamed(ctx, u.Tx(), "effect"); err != nil {
			t.Fatal(err)
		}
		before()
		end, _, err := u.Next(ctx, marks[1:])
		_ = u.Rollback(ctx) // of the second mark's, where there is one
		return end, err
	}},
}

// A connection that is cut around COMMIT looks the same whether the server has committed or
// not, so the end is unknown, and asking again with the mark finds the truth.
func TestLostCommitIsUnknown(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		direct := p.open()
		scope, name := scopeOf(t, direct), named("mark %d")
		proxy := servertest.Proxy(t, p.dsn)
		s := p.openOn(p.dbOn(proxy.DSN(), 4))
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
					p.wantEffects(effects)
					// The broken connection is not used again.
					wantMark(t, s, marks[0], status)
				})
			}
		}
	})
}

func TestEndedContextBeforeCommitRollsBack(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.open()
		scope, name := scopeOf(t, s), named("mark %d")
		for _, way := range endings {
			marks := [2]store.Mark{plainMark(scope, name()), plainMark(scope, name())}
			ctx, cancel := context.WithCancel(t.Context())
			end, err := way.end(t, ctx, s, marks, cancel)
			wantEnd(t, end, err, store.RolledBack, context.Canceled)
			if f := s.Fault(err); f != store.FaultCanceled {
				t.Errorf("%s: the fault is %s, want canceled", way.name, f)
			}
			wantMark(t, s, marks[0], store.New)
			wantMark(t, s, marks[1], store.New)
			p.wantEffects(0)
		}
	})
}

// With pgx: lib/pq does not give up a connection on which nothing comes any more.
func TestContextThatEndsDuringCommitIsUnknown(t *testing.T) {
	t.Parallel()
	p := fresh(t, "pgx")
	// COMMIT waits for this trigger, and the context ends meanwhile.
	p.exec(`create function stall() returns trigger language plpgsql as $$ begin perform pg_sleep(30); return null; end $$`)
	p.exec(`create table slow (id int)`)
	p.exec(`create constraint trigger stall after insert on slow deferrable initially deferred for each row execute function stall()`)
	s := p.open()
	scope, name := scopeOf(t, s), named("mark %d")
	for _, way := range []func(ctx context.Context, u store.Unit[txOf], next store.Mark) (store.End, error){
		func(ctx context.Context, u store.Unit[txOf], _ store.Mark) (store.End, error) { return u.Commit(ctx) },
		func(ctx context.Context, u store.Unit[txOf], next store.Mark) (store.End, error) {
			end, _, err := u.Next(ctx, []store.Mark{next})
			return end, err
		},
	} {
		mark, next := plainMark(scope, name()), plainMark(scope, name())
		u := begin(t, s, mark)
		if _, err := u.Tx().ExecContext(t.Context(), "insert into slow values (1)"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			await(t, func() bool {
				return queryOne[int64](t, p.admin, "select count(*) from pg_stat_activity where application_name = $1 and wait_event = 'PgSleep'", p.schema) == 1
			})
			cancel()
		}()
		start := time.Now()
		end, err := way(ctx, u, next)
		wantEnd(t, end, err, store.Unknown)
		if f := s.Fault(err); f != store.FaultCanceled || !errors.Is(err, context.Canceled) {
			t.Errorf("%v is %s, want canceled", err, f)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
		wantMark(t, s, mark, store.New)
	}
}

// A session that is gone when the unit wants to commit has not committed: that is certain, because
// the question before COMMIT has found it out.
func TestLossBeforeCommitIsARollback(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		proxy := servertest.Proxy(t, p.dsn)
		s := p.openOn(p.dbOn(proxy.DSN(), 4))
		scope, name := scopeOf(t, s), named("mark %d")
		for _, way := range endings {
			marks := [2]store.Mark{plainMark(scope, name()), plainMark(scope, name())}
			end, err := way.end(t, t.Context(), s, marks, proxy.CutAll)
			wantEnd(t, end, err, store.RolledBack)
			if f := s.Fault(err); f != store.FaultOutage {
				t.Errorf("%s: %v is %s, want outage", way.name, err, f)
			}
			wantMark(t, s, marks[0], store.New)
			p.wantEffects(0)
		}
	})
}
