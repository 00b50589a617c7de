package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

const day = 24 * time.Hour

func TestPurgeSaysWhatItRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		scope, err := s.Scope(t.Context(), "billing", 10*day)
		if err != nil {
			t.Fatal(err)
		}
		for i, age := range []time.Duration{0, 5 * day, 20 * day, 30 * day} {
			m := store.Mark{Scope: scope, Key: store.DigestKey([]byte{byte(i)}), Time: time.Now().Add(-age)}
			if _, err := begin(t, s, m).Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Reached(t.Context(), scope, []store.Reach{{Log: "log", Newest: time.Now()}}); err != nil {
			t.Fatal(err)
		}
		wantPurged(t, s, memstore.Purged{Marks: 2})
		wantPurged(t, s, memstore.Purged{})
	})
}

func TestCountsGoWhenNothingWasAddedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		keys := make(map[string]store.Key)
		scopes := make(map[string]store.Scope)
		for name, keep := range map[string]time.Duration{"an hour": time.Hour, "a year": 365 * day, "for ever": store.Forever} {
			scope, err := s.Scope(t.Context(), name, keep)
			if err != nil {
				t.Fatal(err)
			}
			scopes[name], keys[name] = scope, store.DigestKey([]byte(name))
			if _, err := s.Spend(t.Context(), scope, keys[name]); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(29 * day)
		wantPurged(t, s, memstore.Purged{})
		if _, err := s.Start(t.Context(), scopes["an hour"], keys["an hour"], "process"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(29 * day)
		wantPurged(t, s, memstore.Purged{})
		time.Sleep(2 * day)
		wantPurged(t, s, memstore.Purged{Attempts: 1})
		time.Sleep(365 * day)
		wantPurged(t, s, memstore.Purged{Attempts: 1})
		time.Sleep(100 * 365 * day)
		wantPurged(t, s, memstore.Purged{})
		if n, err := s.Spend(t.Context(), scopes["for ever"], keys["for ever"]); n != 2 || err != nil {
			t.Errorf("the count kept for ever is %d, %v", n, err)
		}
	})
}

func TestNobodyReachesAnythingInAScopeThatNobodyAskedFor(t *testing.T) {
	s := memstore.New()
	wantFault(t, s, s.Reached(t.Context(), 7, []store.Reach{{Log: "log"}}), store.FaultHandler)
}

func wantPurged(t *testing.T, s *memstore.Store, want memstore.Purged) {
	t.Helper()
	if got, err := s.Purge(t.Context()); got != want || err != nil {
		t.Errorf("purged %+v, %v, want %+v", got, err, want)
	}
}
