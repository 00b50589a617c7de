package dedup_test

import (
	"errors"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// A message whose body breaks the function that finds its fingerprint or its order can be given up, whatever
// is kept of it; else it would stop its partition for ever.
func TestMessageThatBreaksAFunctionIsBuried(t *testing.T) {
	t.Parallel()
	broken := func(m dedup.Message) []byte { return m.Body[:8] }
	for name, view := range map[string]func(*pgstore.Store) store.Marks[pgxTx]{
		"keys":               func(s *pgstore.Store) store.Marks[pgxTx] { return s },
		"positions":          func(s *pgstore.Store) store.Marks[pgxTx] { return s.Fenced() },
		"positions and keys": func(s *pgstore.Store) store.Marks[pgxTx] { return s.FencedMarks() },
	} {
		for what, opt := range map[string]dedup.TxOption{"fingerprint": dedup.WithFingerprint(broken), "order": dedup.WithParking(broken)} {
			if name == "positions" && what == "fingerprint" {
				continue // is not offered
			}
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				pool := database(t)
				s := graveyard(t, pool)
				g, err := dedup.NewTx(view(s), "consumer", dedup.FromHeader("id"), dedup.Forever, insert, opt)
				if err != nil {
					t.Fatal(err)
				}
				sound := placed(1, 0)
				sound.Body = []byte("long enough")
				for range 2 {
					wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{placed(0, 0), sound}), "failed(handler)")
					wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{placed(0, 0), sound}), "failed(handler)")
				}
				wantResult(t, g.Bury(t.Context(), placed(0, 0), errors.New("no")), dedup.Buried, 0)
				wantResult(t, g.Bury(t.Context(), placed(0, 0), errors.New("no")), dedup.Duplicate, 0)
				wantLetters(t, s, ":dead") // by its place: what was found of it is not trusted
				wantResult(t, g.Process(t.Context(), sound), dedup.Applied, 0)
				wantRows(t, pool, "m1:1")
			})
		}
	}
}

// Nobody would compare what WithFingerprint says.
func TestFingerprintNeedsKeys(t *testing.T) {
	t.Parallel()
	s, err := pgstore.New(connect(t, "postgres://127.0.0.1:1/nowhere")) // nothing is asked of it
	if err != nil {
		t.Fatal(err)
	}
	const want = `dedup: consumer "c": WithFingerprint: pgstore.Fenced keeps positions and no keys, so nothing would be compared`
	if _, err := dedup.NewTx(s.Fenced(), "c", dedup.FromHeader("id"), dedup.Forever, insert, dedup.WithFingerprint(body)); err == nil || err.Error() != want {
		t.Errorf("the error is %v\nwant %s", err, want)
	}
	if _, err := dedup.NewTx(s.FencedMarks(), "c", dedup.FromHeader("id"), dedup.Forever, insert, dedup.WithFingerprint(body)); err != nil {
		t.Error(err)
	}
}
