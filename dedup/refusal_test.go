package dedup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

type ctx = context.Context

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is a place whose record is as old as its offset is low.
func at(offset int64) dedup.Position {
	return dedup.Position{Broker: "kafka", Log: "orders", Partition: 3, Offset: offset, Time: epoch.Add(time.Duration(offset) * time.Hour)}
}

func with(id, body string) dedup.Message {
	m := message(id)
	m.Body = []byte(body)
	return m
}

func body(m dedup.Message) []byte {
	if string(m.Body) == "-" {
		return nil
	}
	return m.Body
}

// The same key with other content is two messages with one key: neither run nor dropped.
func TestMismatch(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"statements", "queued", "batch"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			s := graveyard(t, pool)
			g := guards(t, pool, dedup.WithFingerprint(body))[name]
			wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{with("a", "1"), with("a", "1"), with("b", "1"), with("a", "-"), with("a", "2"), with("c", "1")}),
				"applied duplicate applied duplicate mismatched(handler)")
			// In one batch with its neighbours, which are settled; and with its twin, which comes first.
			wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{with("d", "1"), with("a", "2"), with("e", "1")}), "applied mismatched(handler)")
			wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{with("f", "1"), with("f", "1"), with("f", "2"), with("g", "1")}), "applied duplicate mismatched(handler)")
			wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{with("h", "-"), with("h", "2"), with("h", "3")}), "applied duplicate duplicate")

			bad := with("a", "2")
			r := g.Process(t.Context(), bad)
			var mismatch *dedup.MismatchError
			if !errors.As(r.Err, &mismatch) || string(mismatch.Key) != "a" || !dedup.IsPermanent(r.Err) {
				t.Errorf("the error is %v", r.Err)
			}
			wantResult(t, g.Bury(t.Context(), bad, r.Err), dedup.Buried, 0)
			wantResult(t, g.Bury(t.Context(), bad, r.Err), dedup.Duplicate, 0)
			wantResult(t, g.Bury(t.Context(), with("a", "3"), r.Err), dedup.Buried, 0)
			wantLetters(t, s, "a:conflicting a:conflicting")
			wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{with("a", "1")}), "duplicate")
			wantRows(t, pool, "a:1 b:1 d:1 f:1 h:1")
		})
	}
}

// What is older than the marks that were removed is neither run nor passed as a duplicate.
func TestLate(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"statements", "queued", "batch"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			s := graveyard(t, pool)
			g := guardsThatKeep(t, pool, 30*24*time.Hour)[name]
			dated := func(id string, offset int64) dedup.Message {
				m := message(id)
				m.Position = at(offset)
				return m
			}
			const v7 = "019d0000-0000-7000-8000-000000000001" // in March 2026
			wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{dated("kept", 1), dated("gone", 2), dated("new", 2000), dated(v7, 2000)}), "applied applied applied applied")
			// What the removal of marks does.
			exec(t, pool, "update semel.scopes set purged_ms = extract(epoch from timestamptz '2026-05-01') * 1000")
			exec(t, pool, "delete from semel.marks_plain where at < '2026-05-01' and key <> (select key from semel.marks_plain order by at limit 1)")
			exec(t, pool, "delete from semel.marks_timed")

			wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{dated("kept", 1), dated("new", 2000), dated("newer", 2001), dated("gone", 2), dated("newest", 2002)}),
				"duplicate duplicate applied late(handler)")
			wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{dated("b", 2003), dated("kept", 1), dated("gone", 2), dated("c", 2004)}), "applied duplicate late(handler)")
			// By its own time, where the key has one, and not by when it was stored in the log.
			wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{dated("d", 2005), dated(v7, 2006)}), "applied late(handler)")
			wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{dated("e", 2005), dated(v7, 2006)}), "applied late(handler)")
			wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{message("without a time")}), "applied")

			r := g.Process(t.Context(), dated("gone", 2))
			if !errors.Is(r.Err, dedup.ErrLate) || !dedup.IsPermanent(r.Err) {
				t.Errorf("the error is %v", r.Err)
			}
			wantResult(t, g.Bury(t.Context(), dated("gone", 2), r.Err), dedup.Buried, 0)
			wantResult(t, g.Bury(t.Context(), dated("gone", 2), r.Err), dedup.Duplicate, 0)
			id := wantLetters(t, s, "gone:quarantined")[0].ID
			wantRows(t, pool, v7+":1 b:1 d:1 e:1 gone:1 kept:1 new:1 newer:1 without a time:1")
			// A person who knows that it was not done says so.
			wantResult(t, g.Replay(t.Context(), id), dedup.Applied, 0)
		})
	}
}

func TestHandlerLimit(t *testing.T) {
	t.Parallel()
	pool := database(t)
	s := graveyard(t, pool)
	slow := func(ctx context.Context, tx pgxTx, m dedup.Message) error {
		if idOf(m) == "slow" {
			<-ctx.Done() // and not a statement, which may go on in the server and hold the mark
			return ctx.Err()
		}
		return insert(ctx, tx, m)
	}
	g, err := dedup.NewTx(s, "consumer", dedup.FromHeader("id"), dedup.Forever, slow, dedup.WithHandlerLimit(2*time.Second)) // the others must be done by then
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, g.ProcessEach(t.Context(), messages("a", "slow", "b")), "applied failed(handler)")
	wantOutcomes(t, g.ProcessBatch(t.Context(), messages("c", "slow", "b")), "applied failed(handler)")
	if r := g.Process(t.Context(), message("slow")); !errors.Is(r.Err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", r.Err)
	}
	wantRows(t, pool, "a:1 c:1")
	wantResult(t, g.Bury(t.Context(), message("slow"), errors.New("too slow")), dedup.Buried, 0)
	if r := g.Replay(t.Context(), wantLetters(t, s, "slow:dead")[0].ID); r.Outcome != dedup.Failed || r.Fault != store.FaultHandler {
		t.Errorf("again: %+v", r)
	}
}
