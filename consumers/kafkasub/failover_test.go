package kafkasub_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// The database fails over to a replica that lacks the last three of six messages: their effects, their marks
// and their part of the position. The consumer lives, and has committed all six to its group. With
// the next message it goes back to where the replica is, also where it has asked for the position in a
// silence before.
func TestDatabaseFailsOverUnderALiveConsumer(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	for name, view := range map[string]func(*pgstore.Store) pgstore.Fenced{"positions": (*pgstore.Store).Fenced, "positions and keys": (*pgstore.Store).FencedMarks} {
		for mode, opts := range map[string][]kafkasub.Option{
			"each":    {kafkasub.WithSilence(time.Hour)},
			"batch":   {kafkasub.WithSilence(time.Hour), kafkasub.WithBatch(20, 10*time.Millisecond)},
			"silence": {kafkasub.WithSilence(10 * time.Millisecond)},
		} {
			t.Run(name+", "+mode, func(t *testing.T) {
				t.Parallel()
				b := startBroker(t, 1)
				_, pool := effects(t, server, name+" "+mode)
				s, err := pgstore.New(pool)
				if err != nil {
					t.Fatal(err)
				}
				guard, err := dedup.NewTx(view(s), "billing", dedup.FromCoordinates(), dedup.Forever, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
					_, err := tx.Exec(ctx, "insert into effects (name) values ($1)", string(m.Body))
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				asked := &asking{TxGuard: guard}
				book, log := newLogBook(t)
				r := run(t, newConsumer(t, groupConfig(b), asked, append(opts, log)...))

				produce(t, b, 0, "m0", "m1", "m2")
				untilCommitted(t, b, 0, 3)
				replicate(t, pool)
				produce(t, b, 0, "m3", "m4", "m5")
				untilCommitted(t, b, 0, 6)
				failOver(t, pool)
				if mode == "silence" {
					before := asked.times.Load()
					eventually(t, "the position is asked for in the silence", func() bool { return asked.times.Load() >= before+2 })
				}
				produce(t, b, 0, "m6")
				untilEffects(t, pool, numbered("m", 7))
				untilCommitted(t, b, 0, 7)
				produce(t, b, 0, "m7")
				untilEffects(t, pool, numbered("m", 8))
				r.stop(t)
				if !book.has("level=WARN", "the server has lost what it had", "offset=6") {
					t.Error("nobody was told")
				}
				if n := number(t, pool, "select count(*) from semel.dead_letters"); n != 0 {
					t.Errorf("%d messages were given up", n)
				}
			})
		}
	}
}

// asking counts how often the position was asked for.
type asking struct {
	*dedup.TxGuard[pgx.Tx]
	times atomic.Int64
}

func (a *asking) Applied(ctx context.Context, log string, partition int) (store.Applied, error) {
	defer a.times.Add(1)
	return a.TxGuard.Applied(ctx, log, partition)
}

// replicated are the tables that a replica may lack the end of.
var replicated = []string{"effects", "semel.fences", "semel.marks_plain", "semel.marks_timed"}

// replicate keeps what a replica has received so far.
func replicate(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	sql := "create schema replica;"
	for _, table := range replicated {
		sql += fmt.Sprintf("create table replica.%s as table %s;", strings.TrimPrefix(table, "semel."), table)
	}
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// failOver makes the database what the replica was.
func failOver(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var sql string
	for _, table := range replicated {
		sql += fmt.Sprintf("delete from %s; insert into %[1]s table replica.%[2]s;", table, strings.TrimPrefix(table, "semel."))
	}
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// untilEffects waits for these effects and no others, once each.
func untilEffects(t *testing.T, pool *pgxpool.Pool, want []string) {
	t.Helper()
	got := ""
	defer func() {
		if t.Failed() {
			t.Logf("the effects are %s", got)
		}
	}()
	eventually(t, fmt.Sprintf("the effects are %s", want), func() bool {
		if err := pool.QueryRow(t.Context(), "select coalesce(string_agg(name, ' ' order by name), '') from effects").Scan(&got); err != nil {
			t.Error(err)
		}
		return got == strings.Join(want, " ")
	})
}
