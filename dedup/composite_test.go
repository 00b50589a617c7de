package dedup_test

import (
	"errors"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// A part that finds nothing and does not say so would make one message of all those of a tenant: the first
// is applied, and the others are dropped as duplicates.
func TestZeroKeyOfAPartIsNoKey(t *testing.T) {
	t.Parallel()
	forgetful := func(m dedup.Message) (dedup.Key, error) {
		if id, ok := m.Header("id"); ok {
			return dedup.KeyOf(id)
		}
		return dedup.Key{}, nil
	}
	key := dedup.Composite(dedup.FromHeader("tenant"), forgetful)
	wantNoKey(t, key, headers("tenant", "t"), "no key: key function 2 of Composite returned the zero Key")
	wantNoKey(t, dedup.Composite(key, dedup.FromHeader("tenant")), headers("tenant", "t"), "no key: key function 2 of Composite returned the zero Key")
	wantKey(t, key, headers("tenant", "t", "id", "7"), "t/7")
	// Another function may know better.
	wantKey(t, dedup.FirstOf(key, dedup.FromHeader("tenant")), headers("tenant", "t"), "t")

	g, err := dedup.NewTx(memstore.New(), "consumer", key, dedup.Forever, txHandler(add))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r := g.Process(t.Context(), headers("tenant", "t"))
		wantResult(t, r, dedup.Failed, store.FaultHandler)
		if !errors.Is(r.Err, dedup.ErrNoKey) {
			t.Errorf("the error is %v", r.Err)
		}
	}
}
