package pgstore_test

import (
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

func TestAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	s := newStore(t, migrated(t))
	scope, ctx := scopeOf(t, s), t.Context()
	plain := store.DigestKey([]byte("m"))
	timed := store.Key{ID: plain.ID, Timed: true} // another message, though the bytes are the same
	count := func(f func() (int, error), want int) {
		t.Helper()
		if n, err := f(); n != want || err != nil {
			t.Errorf("%d (%v), want %d", n, err, want)
		}
	}
	spend := func(scope store.Scope, key store.Key) func() (int, error) {
		return func() (int, error) { return s.Spend(ctx, scope, key) }
	}
	start := func(key store.Key) func() (int, error) {
		return func() (int, error) {
			tally, err := s.Start(ctx, scope, key, rand.Text())
			return tally.Starts, err
		}
	}
	count(spend(scope, plain), 1)
	count(spend(scope, plain), 2)
	count(start(plain), 1)
	count(start(timed), 1)
	count(spend(scope, timed), 1)
	count(spend(scope+1, plain), 1)
	count(spend(scope, plain), 3)
	if err := s.Forget(ctx, scope, plain); err != nil {
		t.Fatal(err)
	}
	if err := s.Forget(ctx, scope, plain); err != nil {
		t.Errorf("forget what is not there: %v", err)
	}
	count(spend(scope, plain), 1)
	count(start(plain), 1)
	count(start(timed), 1) // it has failed since its first start, and so has not ended the process
	count(start(timed), 2)
}

func TestAttemptsCountedAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, migrated(t))
	scope, key := scopeOf(t, s), store.TimedKey(time.Now(), []byte("m"))
	var mu sync.Mutex
	seen := map[int]int{}
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 10 {
				n, err := s.Spend(t.Context(), scope, key)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[n]++
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	for n := 1; n <= 80; n++ {
		if seen[n] != 1 {
			t.Errorf("%d was counted %d times", n, seen[n])
		}
	}
}

func TestWhoEntersAPartition(t *testing.T) {
	t.Parallel()
	s := newStore(t, migrated(t))
	scope, ctx := scopeOf(t, s), t.Context()
	for i, step := range []struct {
		leave     bool
		partition int
		owner     string
		orderly   bool
	}{
		{partition: 0, owner: "a", orderly: true},  // the first of all
		{partition: 0, owner: "a", orderly: true},  // still there
		{partition: 0, owner: "b", orderly: false}, // a has not left
		{leave: true, partition: 0, owner: "a"},    // too late
		{partition: 0, owner: "c", orderly: false},
		{leave: true, partition: 0, owner: "c"},
		{partition: 0, owner: "d", orderly: true},
		{partition: 1, owner: "a", orderly: true}, // another partition
		{leave: true, partition: 1, owner: "a"},
		{partition: 1, owner: "a", orderly: true},
		{partition: 1, owner: "b", orderly: false},
	} {
		if step.leave {
			if err := s.Leave(ctx, scope, "log", step.partition, step.owner); err != nil {
				t.Errorf("step %d: %v", i, err)
			}
			continue
		}
		orderly, err := s.Enter(ctx, scope, "log", step.partition, step.owner)
		if orderly != step.orderly || err != nil {
			t.Errorf("step %d: %s enters %d: orderly is %t (%v), want %t", i, step.owner, step.partition, orderly, err, step.orderly)
		}
	}
	if orderly, err := s.Enter(ctx, scope+1, "log", 0, "x"); !orderly || err != nil {
		t.Errorf("the first of another consumer: %t, %v", orderly, err)
	}
	if err := s.Leave(ctx, scope, "nowhere", 0, "x"); err != nil {
		t.Error(err)
	}
}
