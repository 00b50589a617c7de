package sqlstore_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
	"github.com/semel-dev/semel/store/sqlstore"
)

// awkwardSettings change how a session writes and reads values, and the ways in which the drivers
// send statements.
func awkwardSettings(driver string) map[string][]string {
	all := map[string][]string{
		"as they are":   nil,
		"older bytes":   {"bytea_output", "escape"},
		"other dates":   {"datestyle", "SQL, DMY", "timezone", "Asia/Kolkata"},
		"other strings": {"standard_conforming_strings", "off", "backslash_quote", "on"},
	}
	if driver == "postgres" {
		delete(all, "other dates") // lib/pq reads times in the ISO form alone, which it asks for itself
		all["binary parameters"] = []string{"binary_parameters", "yes"}
		return all
	}
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		if mode == "simple_protocol" {
			delete(all, "other strings") // pgx refuses the two together
		}
		all[mode] = []string{"default_query_exec_mode", mode}
	}
	return all
}

// A message and a letter come through unchanged whatever the session's settings are, and pgstore reads
// the same.
func TestSettingsOfTheSession(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		for name, settings := range awkwardSettings(driver) {
			t.Run(name, func(t *testing.T) {
				s := p.openOn(p.db(2, settings...))
				scope := scopeOf(t, s)
				for _, at := range []time.Time{{}, time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.UTC), time.Date(-6000, 1, 1, 0, 0, 0, 0, time.UTC), time.UnixMilli(1 << 50)} {
					marks := []store.Mark{
						{Scope: scope, Key: store.DigestKey(fmt.Append(nil, name, at)), Time: at, Fingerprint: store.ID{1}, Order: store.ID{2}},
						{Scope: scope, Key: store.TimedKey(at, fmt.Append(nil, name, at)), Time: at},
						{Scope: scope, Key: store.DigestKey(fmt.Append(nil, name, at, "unprinted")), Time: at},
					}
					letter := awkwardLetter(at, marks[0].Key)
					u, status, err := s.Begin(t.Context(), marks)
					if err != nil {
						t.Fatal(err)
					}
					for i := range status {
						if status[i] != store.New {
							t.Errorf("mark %d is %s, want new", i, status[i])
						}
					}
					if err := s.BuryTx(t.Context(), u.Tx(), letter); err != nil {
						t.Fatal(err)
					}
					end, err := u.Commit(t.Context())
					wantEnd(t, end, err, store.Committed)
					u, status, err = s.Begin(t.Context(), append(marks, store.Mark{Scope: scope, Key: marks[0].Key, Fingerprint: store.ID{3}}))
					if err != nil {
						t.Fatal(err)
					}
					for i, want := range []store.Status{store.Seen, store.Seen, store.Seen, store.Mismatched} {
						if status[i] != want {
							t.Errorf("mark %d is %s, want %s", i, status[i], want)
						}
					}
					if err := u.Rollback(t.Context()); err != nil {
						t.Fatal(err)
					}
					p.compareLetters(s, letter)
				}
			})
		}
	})
}

func awkwardLetter(at time.Time, key store.Key) store.DeadLetter {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return store.DeadLetter{
		Consumer: "consumer", Key: key, KeyText: all, Broker: "kafka", Topic: string(all), Log: "log\x00", Partition: 3, Offset: 1 << 60, Time: at,
		MessageKey: nil, Body: []byte{}, Reason: `it's "said" \ 100 %`, Attempts: 7,
		Headers: []store.Header{{Key: string(all), Value: all}, {Key: "", Value: []byte{}}, {Key: "NULL", Value: []byte("NULL")}, {Key: `a"b`, Value: []byte(`{,}\x`)}},
	}
}

// compareLetters reads the newest letter with the store and with pgstore.
func (p *place) compareLetters(s *sqlstore.Store, want store.DeadLetter) {
	p.t.Helper()
	other, err := pgstore.New(p.admin)
	if err != nil {
		p.t.Fatal(err)
	}
	for name, letters := range map[string]store.DeadLetters{"sqlstore": s, "pgstore": other} {
		id := queryOne[int64](p.t, p.admin, "select max(id) from semel.dead_letters")
		got, err := letters.GetDead(p.t.Context(), id)
		if err != nil {
			p.t.Fatalf("%s: %v", name, err)
		}
		if n := len(got.Headers); n != len(want.Headers) {
			p.t.Fatalf("%s: %d headers", name, n)
		}
		for i, h := range got.Headers {
			if h.Key != want.Headers[i].Key || !bytes.Equal(h.Value, want.Headers[i].Value) {
				p.t.Errorf("%s: header %d is %q, want %q", name, i, h, want.Headers[i])
			}
		}
		if got.Key != want.Key || !bytes.Equal(got.KeyText, want.KeyText) || got.Topic != want.Topic || got.Log != want.Log || got.Offset != want.Offset ||
			got.Reason != want.Reason || got.MessageKey != nil || got.Body == nil || len(got.Body) != 0 {
			p.t.Errorf("%s: the letter is %+v, want %+v", name, got, want)
		}
		in := want.Time.Year() > -4000 && want.Time.Year() < 294000
		if in && !got.Time.Equal(want.Time) || !in && got.Time.Year() != -4000 && got.Time.Year() != 294000 {
			p.t.Errorf("%s: the time is %s, want %s", name, got.Time, want.Time)
		}
		listed, err := letters.ListDead(p.t.Context(), store.LetterFilter{Consumer: "consumer", States: []store.LetterState{store.Dead}, First: id, Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}, 0, 10)
		if err != nil || len(listed) != 1 || listed[0].ID != id {
			p.t.Errorf("%s: the list is %v (%v)", name, listed, err)
		}
	}
}

// The two stores see each other's marks, and wait for each other.
func TestOneTableWithPgstore(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		ours := newGuard(t, p.open(), addEffect)
		other, err := pgstore.New(p.admin)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := dedup.NewTx(other, "consumer", dedup.FromHeader("id"), dedup.Forever, pgxEffect)
		if err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, ours.Process(t.Context(), message("a")), dedup.Applied, 0)
		wantOutcome(t, theirs.Process(t.Context(), message("a")), dedup.Duplicate, 0)
		wantOutcome(t, theirs.Process(t.Context(), message("b")), dedup.Applied, 0)
		wantOutcome(t, ours.Process(t.Context(), message("b")), dedup.Duplicate, 0)
		p.wantEffects(2)
	})
}

func pgxEffect(ctx context.Context, tx pgx.Tx, _ dedup.Message) error {
	_, err := tx.Exec(ctx, "insert into effects values ('effect')")
	return err
}
