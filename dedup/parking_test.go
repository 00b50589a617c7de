package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// of is a message of an ordering key.
func of(order, id string) dedup.Message {
	m := message(id)
	m.Key = []byte(order)
	return m
}

func graveyard(t *testing.T, pool *pgxpool.Pool) *pgstore.Store {
	t.Helper()
	s, err := pgstore.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantLetters compares the letters as "id:state", oldest first.
func wantLetters(t *testing.T, s store.DeadLetters, want string) []store.DeadLetter {
	t.Helper()
	all, err := s.ListDead(t.Context(), store.LetterFilter{}, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range all {
		got = append(got, fmt.Sprintf("%s:%s", d.KeyText, d.State))
	}
	if strings.Join(got, " ") != want {
		t.Errorf("the letters are %q, want %q", strings.Join(got, " "), want)
	}
	return all
}

// A message that is given up stops its ordering key and no other; when a person has run it again,
// everything behind it goes in the order in which it came.
func TestParkedKeyWaitsInOrder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"statements", "queued", "batch"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			s := graveyard(t, pool)
			exec(t, pool, "alter table effects add column n bigint generated always as identity, add constraint refused check (id <> 'k1')")
			g := guards(t, pool, dedup.WithParking(dedup.OrderByKey))[name]

			k1 := of("k", "k1")
			wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{k1}), "failed(handler)")
			wantResult(t, g.Bury(t.Context(), k1, errors.New("refused")), dedup.Buried, 0)
			wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{of("k", "k2"), of("j", "j1"), of("k", "k3"), of("k", "k2"), of("", "-")}), "parked applied parked duplicate applied")
			wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{of("j", "j2"), of("k", "k4"), of("k", "k5"), of("k", "k1")}), "applied parked parked duplicate")
			// One whose key cannot be had, and so cannot be tried, goes behind as well.
			all := wantLetters(t, s, "k1:dead k2:waiting k3:waiting k4:waiting k5:waiting")
			wantRows(t, pool, "-:1 j1:1 j2:1")

			keys, err := s.ParkedKeys(t.Context(), "consumer", 10)
			if err != nil || len(keys) != 1 || string(keys[0].Order) != "k" || keys[0].Waiting != 4 || keys[0].Head != all[0].ID || keys[0].Reason != "refused" {
				t.Errorf("parked keys: %+v, %v", keys, err)
			}

			// While its first message fails, the key stays where it is.
			if n, err := g.ReplayKey(t.Context(), []byte("k")); n != 0 || err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("%d were applied, %v", n, err)
			}
			if r := g.Replay(t.Context(), all[1].ID); !errors.Is(r.Err, store.ErrBehind) {
				t.Errorf("one that waits: %v", r.Err)
			}
			if d, err := s.GetDead(t.Context(), all[0].ID); err != nil || d.Attempts != all[0].Attempts+1 || !strings.Contains(d.Reason, "refused") {
				t.Errorf("the letter that failed again: %+v, %v", d, err)
			}
			if d, err := s.GetDead(t.Context(), all[1].ID); err != nil || d.Attempts != 0 {
				t.Errorf("a letter that was not tried: %+v, %v", d, err)
			}

			exec(t, pool, "alter table effects drop constraint refused")
			if n, err := g.ReplayKey(t.Context(), []byte("k")); n != 5 || err != nil {
				t.Errorf("%d were applied, %v", n, err)
			}
			wantLetters(t, s, "")
			if got := column(t, pool, "select string_agg(id, ' ' order by n) from effects where id like 'k%'"); got != "k1 k2 k3 k4 k5" {
				t.Errorf("the order is %q", got)
			}
			wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{of("k", "k1"), of("k", "k6")}), "duplicate applied")
		})
	}
}

// Messages come while a person releases their key. Whatever the interleaving, they take effect in
// order and none is left behind.
func TestReleaseBesideArrivals(t *testing.T) {
	t.Parallel()
	pool := database(t)
	s := graveyard(t, pool)
	exec(t, pool, "alter table effects add column n bigint generated always as identity")
	bad := true
	g, err := dedup.NewTx(s, "consumer", dedup.FromHeader("id"), dedup.Forever, func(ctx context.Context, tx pgxTx, m dedup.Message) error {
		if bad {
			return errors.New("not yet")
		}
		return insert(ctx, tx, m)
	}, dedup.WithParking(dedup.OrderByKey))
	if err != nil {
		t.Fatal(err)
	}
	const rounds, each = 10, 12
	for round := range rounds {
		bad = true
		order := fmt.Sprintf("k%d", round)
		first := of(order, fmt.Sprintf("%s-%03d", order, 0))
		wantResult(t, g.Process(t.Context(), first), dedup.Failed, store.FaultHandler)
		wantResult(t, g.Bury(t.Context(), first, errors.New("given up")), dedup.Buried, 0)
		bad = false
		released := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				var left []store.DeadLetter
				if left, err = s.ListDead(t.Context(), store.LetterFilter{Order: []byte(order)}, 0, 1); len(left) == 0 {
					break
				}
				_, err = g.ReplayKey(t.Context(), []byte(order))
			}
			released <- err
		}()
		for i := 1; i < each; i++ {
			m := of(order, fmt.Sprintf("%s-%03d", order, i))
			for {
				r := g.Process(t.Context(), m)
				if r.Outcome.Settled() {
					break
				}
				if r.Fault == store.FaultHandler {
					t.Fatal(r.Err)
				}
			}
		}
		if err := <-released; err != nil {
			t.Fatal(err)
		}
		if _, err := g.ReplayKey(t.Context(), []byte(order)); err != nil {
			t.Fatal(err)
		}
	}
	if got := column(t, pool, `select count(*)::text || ' ' || coalesce(sum((id <> want)::int), 0)::text from (
		select id, lag(id) over (partition by split_part(id, '-', 1) order by n) before, n,
			split_part(id, '-', 1) || '-' || lpad((row_number() over (partition by split_part(id, '-', 1) order by n) - 1)::text, 3, '0') want
		from effects) e`); got != fmt.Sprintf("%d 0", rounds*each) {
		t.Errorf("effects and those out of order: %s, want %d and none", got, rounds*each)
	}
	if keys, err := s.ParkedKeys(t.Context(), "", 10); err != nil || len(keys) != 0 {
		t.Errorf("still parked: %v, %v", keys, err)
	}
	if got := column(t, pool, "select count(*)::text from semel.parked_keys"); got != "0" {
		t.Errorf("%s keys are parked without a letter", got)
	}
}

// Discarding what a key waits for does not let the others overtake each other: they go on waiting
// for a person.
func TestDiscardedHead(t *testing.T) {
	t.Parallel()
	pool := database(t)
	s := graveyard(t, pool)
	g := guards(t, pool, dedup.WithParking(dedup.OrderByKey))["statements"]
	wantResult(t, g.Bury(t.Context(), of("k", "k1"), errors.New("no")), dedup.Buried, 0)
	wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{of("k", "k2"), of("k", "k3")}), "parked parked")
	all := wantLetters(t, s, "k1:dead k2:waiting k3:waiting")
	if n, err := s.DiscardDead(t.Context(), all[0].ID); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{of("k", "k4")}), "parked")
	if n, err := g.ReplayKey(t.Context(), []byte("k")); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	wantResult(t, g.Bury(t.Context(), of("k", "k5"), errors.New("no")), dedup.Buried, 0)
	all = wantLetters(t, s, "k5:dead")
	if n, err := s.DiscardDead(t.Context(), all[0].ID); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{of("k", "k6")}), "applied")
	wantRows(t, pool, "k2:1 k3:1 k4:1 k6:1")
}
