package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// database is a fresh one with the tables, and one for effects without a unique constraint, so
// that a second effect is a second row.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := connect(t, servertest.Postgres(t))
	if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(365*24*time.Hour, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "create table effects (id text)"); err != nil {
		t.Fatal(err)
	}
	return pool
}

func connect(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func insert(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
	_, err := tx.Exec(ctx, "insert into effects values ($1)", idOf(m))
	return err
}

func queue(_ context.Context, b *pgx.Batch, m dedup.Message) error {
	b.Queue("insert into effects values ($1)", idOf(m))
	return nil
}

func wantRows(t *testing.T, pool *pgxpool.Pool, want string) {
	t.Helper()
	var got string
	err := pool.QueryRow(t.Context(), "select coalesce(string_agg(id || ':' || n, ' ' order by id), '') from (select id, count(*) n from effects group by id) e").Scan(&got)
	if err != nil || got != want {
		t.Errorf("the effects are %q, %v, want %q", got, err, want)
	}
}

// guards are one consumer in the three ways that a handler may be written.
func guards(t *testing.T, pool *pgxpool.Pool, opts ...dedup.TxOption) map[string]guard {
	t.Helper()
	return guardsThatKeep(t, pool, dedup.Forever, opts...)
}

// guard is all that a TxGuard can do, whatever its transaction is.
type guard interface {
	dedup.EachProcessor
	dedup.BatchProcessor
	dedup.Burier
	Replay(ctx context.Context, id int64) dedup.Result
	ReplayKey(ctx context.Context, order []byte) (int, error)
	ReplayAll(ctx context.Context, f store.LetterFilter) (dedup.Replayed, error)
}

func guardsThatKeep(t *testing.T, pool *pgxpool.Pool, keep time.Duration, opts ...dedup.TxOption) map[string]guard {
	t.Helper()
	s, err := pgstore.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	id := dedup.FromHeader("id")
	one, err1 := dedup.NewTx(s, "consumer", id, keep, insert, opts...)
	queued, err2 := dedup.NewTx(s.Queued(), "consumer", id, keep, queue, opts...)
	batch, err3 := dedup.NewTxBatch(s, "consumer", id, keep, func(ctx context.Context, tx pgx.Tx, ms []dedup.Message) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"id"}, pgx.CopyFromSlice(len(ms), func(i int) ([]any, error) {
			return []any{idOf(ms[i])}, nil
		}))
		return err
	}, opts...)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return map[string]guard{"statements": one, "queued": queued, "batch": batch}
}

// COMMIT's answer is lost: the message is unknown, and delivered again it is applied where
// the server had not seen the COMMIT and a duplicate where it had. One effect either way.
func TestLostCommitHasOneEffect(t *testing.T) {
	t.Parallel()
	pool := database(t)
	proxy := servertest.Proxy(t, pool.Config().ConnString())
	var want []string
	for name, g := range guards(t, connect(t, proxy.DSN())) {
		for fault, again := range map[servers.CommitFault]string{servers.LoseCommit: "applied", servers.LoseAnswer: "duplicate"} {
			for how, process := range map[string]func(ms []dedup.Message) []dedup.Result{
				"each":  func(ms []dedup.Message) []dedup.Result { return g.ProcessEach(t.Context(), ms) },
				"batch": func(ms []dedup.Message) []dedup.Result { return g.ProcessBatch(t.Context(), ms) },
			} {
				id := strings.ReplaceAll(fmt.Sprintf("%s %s %s", name, fault, how), " ", "-")
				want = append(want, id+"-a:1", id+"-b:1")
				ms := messages(id+"-a", id+"-b")
				armed := proxy.Arm(fault, 1)
				wantOutcomes(t, process(ms), "unknown(outage)")
				if armed.Hits() != 1 {
					t.Errorf("%s: the fault did not strike", id)
				}
				rest := "applied" // it had not begun
				if how == "batch" {
					rest = again
				}
				wantOutcomes(t, process(ms), again+" "+rest)
				wantOutcomes(t, process(ms), "duplicate duplicate")
			}
		}
	}
	var rows int
	if err := pool.QueryRow(t.Context(), "select count(*) from (select id from effects group by id having count(*) = 1) e where id = any($1)", ids(want)).Scan(&rows); err != nil || rows != len(want) {
		t.Errorf("%d messages have one effect, %v, want %d", rows, err, len(want))
	}
}

func ids(counted []string) (all []string) {
	for _, c := range counted {
		all = append(all, strings.TrimSuffix(c, ":1"))
	}
	return all
}

// A constraint that a message violates, found in the batch and settled around.
func TestPoisonOnPostgres(t *testing.T) {
	t.Parallel()
	pool := database(t)
	if _, err := pool.Exec(t.Context(), "alter table effects add check (id not like '%poison')"); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for name, g := range guards(t, pool) {
		ms := messages(name+"1", name+"2", name+"1", name+"poison", name+"3")
		results := g.ProcessBatch(t.Context(), ms)
		wantOutcomes(t, results, "applied applied duplicate failed(handler)")
		if !strings.Contains(results[3].Err.Error(), "23514") {
			t.Errorf("%s: the error is %v", name, results[3].Err)
		}
		wantResult(t, g.Bury(t.Context(), ms[3], results[3].Err), dedup.Buried, 0)
		wantOutcomes(t, g.ProcessBatch(t.Context(), ms[3:]), "duplicate applied")
		rows = append(rows, name+"1:1", name+"2:1", name+"3:1")
	}
	wantRows(t, pool, "batch1:1 batch2:1 batch3:1 queued1:1 queued2:1 queued3:1 statements1:1 statements2:1 statements3:1")
	s, err := pgstore.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	if dead, err := s.ListDead(t.Context(), store.LetterFilter{Consumer: "consumer"}, 0, 10); err != nil || len(dead) != len(rows)/3 {
		t.Errorf("%d letters, %v", len(dead), err)
	}
}

// Overlapping batches in opposite order, by many workers: nobody waits for ever, and each
// message has one effect.
func TestOverlappingBatchesOnPostgres(t *testing.T) {
	t.Parallel()
	pool := database(t)
	all := guards(t, pool)
	var wg sync.WaitGroup
	names := numbered(40)
	for w := range 6 {
		g := all[[]string{"statements", "queued", "batch"}[w%3]]
		wg.Go(func() {
			for round := range 5 {
				ms := messages(names[round*5 : round*5+20]...)
				if w%2 == 1 {
					for i, j := 0, len(ms)-1; i < j; i, j = i+1, j-1 {
						ms[i], ms[j] = ms[j], ms[i]
					}
				}
				for len(ms) > 0 {
					results := g.ProcessBatch(t.Context(), ms)
					done := 0
					for _, r := range results {
						if r.Outcome.Settled() {
							done++
						} else if r.Fault != store.FaultConflict && r.Fault != store.FaultBusy {
							t.Error(r.Err)
							return
						}
					}
					ms = ms[done:]
				}
			}
		})
	}
	wg.Wait()
	var total, distinct int
	if err := pool.QueryRow(t.Context(), "select count(*), count(distinct id) from effects").Scan(&total, &distinct); err != nil || total != 40 || distinct != 40 {
		t.Errorf("%d effects of %d messages, %v", total, distinct, err)
	}
}

func TestGoexitGivesTheConnectionBack(t *testing.T) {
	t.Parallel()
	pool := database(t)
	s, err := pgstore.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	g, err := dedup.NewTx(s, "consumer", dedup.FromHeader("id"), dedup.Forever, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		_ = insert(ctx, tx, m)
		runtime.Goexit()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		done := make(chan struct{})
		go func() { defer close(done); g.ProcessEach(t.Context(), messages("a", "b")) }()
		<-done
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still taken", n)
	}
	wantRows(t, pool, "")
}

// The leases on Postgres: one at a time among rivals, and remembered.
func TestGuardOnPostgres(t *testing.T) {
	t.Parallel()
	pool := database(t)
	s, err := pgstore.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	tokens := map[int64]bool{}
	entered, leave := make(chan struct{}), make(chan struct{})
	g, err := dedup.New(s, "consumer", dedup.FromHeader("id"), func(_ context.Context, m dedup.Message) error {
		mu.Lock()
		tokens[m.FencingToken()] = true
		mu.Unlock()
		close(entered)
		<-leave
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan dedup.Result)
	go func() { first <- g.Process(t.Context(), message("a")) }()
	<-entered
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { wantResult(t, g.Process(t.Context(), message("a")), dedup.Failed, store.FaultBusy) })
	}
	wg.Wait()
	close(leave)
	wantResult(t, <-first, dedup.Applied, 0)
	wantResult(t, g.Process(t.Context(), message("a")), dedup.Duplicate, 0)
	if len(tokens) != 1 || tokens[0] {
		t.Errorf("the tokens are %v", tokens)
	}
}
