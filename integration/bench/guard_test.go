package bench

import (
	"context"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// BenchmarkGuard measures what the guard itself costs a message, on a store and with a handler
// that do nothing. One operation is one message. Run it with -benchtime 1s.
func BenchmarkGuard(b *testing.B) {
	each := func(s store.Marks[nothing]) *dedup.TxGuard[nothing] {
		g, err := dedup.NewTx(s, "each", dedup.FromCoordinates(), dedup.Forever, func(context.Context, nothing, dedup.Message) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
	together := func(s store.Marks[nothing]) *dedup.TxGuard[nothing] {
		g, err := dedup.NewTxBatch(s, "together", dedup.FromCoordinates(), dedup.Forever, func(context.Context, nothing, []dedup.Message) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
	for _, v := range []struct {
		name string
		size int
		run  func(ctx context.Context, ms []dedup.Message) []dedup.Result
	}{
		{"alone", 1, each(nullMarks{}).ProcessEach},
		{"chained", ahead, each(nullMarks{}).ProcessEach},
		{"each,N=500", 500, each(nullMarks{}).ProcessBatch},
		{"batch,N=500", 500, together(nullMarks{}).ProcessBatch},
		{"fence,N=500", 500, together(nullFences{}).ProcessBatch},
	} {
		b.Run(v.name, func(b *testing.B) {
			ms := messages(v.size)
			b.ReportAllocs()
			for done := 0; done < b.N; done += len(ms) {
				check(b, v.run(b.Context(), ms), len(ms))
			}
		})
	}
}
