package dedup_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

type pgxTx = pgx.Tx

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func column(t *testing.T, pool *pgxpool.Pool, sql string) string {
	t.Helper()
	var got string
	if err := pool.QueryRow(t.Context(), sql).Scan(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

func buried(t *testing.T, g guard, ms ...dedup.Message) {
	t.Helper()
	for _, m := range ms {
		wantResult(t, g.Bury(t.Context(), m, errors.New("given up")), dedup.Buried, 0)
	}
}

// A letter that runs again takes effect once: the letter goes with the effect, and what is
// delivered of the message later is a duplicate.
func TestReplayOfOne(t *testing.T) {
	t.Parallel()
	for name, g := range guards(t, database(t)) {
		t.Run(name, func(t *testing.T) {
			pool := database(t)
			g = guards(t, pool)[name]
			s := graveyard(t, pool)
			m := message("a")
			m.Position = at(7)
			buried(t, g, m)
			id := wantLetters(t, s, "a:dead")[0].ID
			wantResult(t, g.Replay(t.Context(), id), dedup.Applied, 0)
			wantLetters(t, s, "")
			wantRows(t, pool, "a:1")
			if r := g.Replay(t.Context(), id); !errors.Is(r.Err, store.ErrNotFound) || r.Outcome != dedup.Failed {
				t.Errorf("again: %+v", r)
			}
			wantOutcomes(t, g.ProcessEach(t.Context(), messages("a")), "duplicate")
		})
	}
}

// Many people press the button at once.
func TestReplayTogether(t *testing.T) {
	t.Parallel()
	pool := database(t)
	g := guards(t, pool)["statements"]
	buried(t, g, message("a"))
	id := wantLetters(t, graveyard(t, pool), "a:dead")[0].ID
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				if r := g.Replay(t.Context(), id); r.Outcome == dedup.Applied || errors.Is(r.Err, store.ErrNotFound) {
					return
				}
			}
		})
	}
	all.Wait()
	wantRows(t, pool, "a:1")
}

// Whatever becomes of COMMIT, there is the letter or the effect and never both or neither.
func TestReplayWithLostCommit(t *testing.T) {
	t.Parallel()
	pool := database(t)
	proxy := servertest.Proxy(t, pool.Config().ConnString())
	s := graveyard(t, pool)
	for fault, rest := range map[servers.CommitFault]string{servers.LoseCommit: "a:dead", servers.LoseAnswer: ""} {
		exec(t, pool, "truncate effects, semel.dead_letters, semel.marks_plain")
		g := guards(t, connect(t, proxy.DSN()))["statements"]
		buried(t, g, message("a"))
		id := wantLetters(t, s, "a:dead")[0].ID
		proxy.Arm(fault, 1)
		wantResult(t, g.Replay(t.Context(), id), dedup.Unknown, store.FaultOutage)
		wantLetters(t, s, rest)
		g.Replay(t.Context(), id)
		wantLetters(t, s, "")
		wantRows(t, pool, "a:1")
	}
}

func TestReplayOfARange(t *testing.T) {
	t.Parallel()
	pool := database(t)
	exec(t, pool, "alter table effects add constraint refused check (id not like '%bad')")
	s := graveyard(t, pool)
	g := guards(t, pool, dedup.WithParking(dedup.OrderByKey))["statements"]
	for i := range 250 {
		buried(t, g, of("", fmt.Sprintf("m%d", i)))
	}
	buried(t, g, of("", "bad"), of("k", "k-bad"))
	wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{of("k", "k2")}), "parked")
	other, err := dedup.NewTx(s, "another consumer", dedup.FromHeader("id"), dedup.Forever, insert)
	if err != nil {
		t.Fatal(err)
	}
	buried(t, other, message("theirs"))
	all, err := s.ListDead(t.Context(), store.LetterFilter{}, 0, 1000)
	if err != nil || len(all) != 254 {
		t.Fatal(len(all), err)
	}

	some, err := g.ReplayAll(t.Context(), store.LetterFilter{First: all[10].ID, Last: all[19].ID})
	if err != nil || some.Applied != 10 || len(some.Failed) != 0 {
		t.Errorf("a range: %+v, %v", some, err)
	}
	rest, err := g.ReplayAll(t.Context(), store.LetterFilter{})
	if err != nil || rest.Applied != 240 || len(rest.Failed) != 2 {
		t.Errorf("the rest: %+v, %v", rest, err)
	}
	for id, err := range rest.Failed {
		if !strings.Contains(err.Error(), "refused") {
			t.Errorf("letter %d: %v", id, err)
		}
	}
	wantLetters(t, s, "bad:dead k-bad:dead k2:waiting theirs:dead")
	if r := g.Replay(t.Context(), all[253].ID); r.Outcome != dedup.Failed || !strings.Contains(r.Err.Error(), `of consumer "another consumer"`) {
		t.Errorf("somebody else's: %+v", r)
	}
	if d, err := s.GetDead(t.Context(), all[253].ID); err != nil || d.Attempts != 0 {
		t.Errorf("somebody else's was touched: %+v, %v", d, err)
	}
}

// What a message causes has the same ids when it runs again from a letter.
func TestReplayKeepsTheMessage(t *testing.T) {
	t.Parallel()
	pool := database(t)
	var seen []dedup.Message
	var ids []store.ID
	fail := true
	g, err := dedup.NewTx(graveyard(t, pool), "consumer", dedup.FromHeader("id"), dedup.Forever, func(_ ctx, _ pgxTx, m dedup.Message) error {
		seen, ids = append(seen, m), append(ids, m.ChildID("x"))
		if fail {
			return errors.New("no")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m := dedup.Message{
		Position: at(42), Topic: "orders.new", Key: []byte("k"), Body: []byte("body\x00"), Attempt: 3,
		Headers: []dedup.Header{{Key: "id", Value: []byte("a")}, {Key: "id", Value: []byte{0xff}}},
	}
	wantResult(t, g.Process(t.Context(), m), dedup.Failed, store.FaultHandler)
	buried(t, g, m)
	fail = false
	wantResult(t, g.Replay(t.Context(), wantLetters(t, graveyard(t, pool), "a:dead")[0].ID), dedup.Applied, 0)
	if ids[0] != ids[1] {
		t.Error("what it causes has other ids")
	}
	first, again := fmt.Sprintf("%+v", seen[0]), fmt.Sprintf("%+v", seen[1])
	if want := strings.Replace(first, "Attempt:3", "Attempt:4", 1); again != want {
		t.Errorf("the message was\n%s\nand is\n%s", want, again)
	}
}

func TestReplayNeedsAStoreOfLetters(t *testing.T) {
	t.Parallel()
	g := guardOn(t, onlyMarks{memstore.New()}, add)
	if r := g.Replay(t.Context(), 1); r.Fault != store.FaultSetup || !strings.Contains(r.Err.Error(), "cannot run dead letters again") {
		t.Errorf("Replay: %+v", r)
	}
	if _, err := g.ReplayAll(t.Context(), store.LetterFilter{}); err == nil {
		t.Error("ReplayAll: no error")
	}
	if _, err := g.ReplayKey(t.Context(), nil); err == nil {
		t.Error("ReplayKey without a key: no error")
	}
}

type onlyMarks struct{ store.Marks[*memstore.Tx] }
