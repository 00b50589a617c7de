package outbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/outbox"
)

// The first rows of a slot whose holder died are begun with a note, those behind them without one. One that needs no
// note must not overtake those of its key whose note is on its way.
func TestOrderOfAKeyHoldsWhereSuspicionEnds(t *testing.T) {
	b := newBox(t)
	dead := b.store.Join("dead", 50*time.Millisecond)
	eventually(t, "somebody holds all slots", func() bool {
		h, err := dead.Hold(t.Context())
		return err == nil && len(h.Gained) > 0
	})
	const n = 1000
	for i := 0; i < n; i += 10 {
		for _, kind := range numbered(n)[i : i+10] {
			b.write(event("kafka", "k", kind))
		}
	}
	rec := newRecorder(nil)
	b.run(map[string]outbox.Publisher{"kafka": rec})
	rec.wait(t, n)
	if got := firstCopies(rec.types("k")); !slices.Equal(got, numbered(n)) {
		for i := range got {
			if got[i] != numbered(n)[i] {
				t.Fatalf("number %d to arrive is %s, then %v", i, got[i], got[i+1:i+4])
			}
		}
	}
}
