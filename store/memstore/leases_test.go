package memstore_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func leaseKey(n int) store.LeaseKey {
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func claim(t *testing.T, s *memstore.Store, n int, lease, keep time.Duration) store.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), leaseKey(n), store.ClaimParams{Lease: lease, Keep: keep})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fill claims new keys until the store is full, and returns how many it took.
func fill(t *testing.T, s *memstore.Store, from int, p store.ClaimParams) int {
	t.Helper()
	for n := from; ; n++ {
		if _, err := s.Claim(t.Context(), leaseKey(n), p); err != nil {
			if !errors.Is(err, memstore.ErrFull) {
				t.Fatal(err)
			}
			wantFault(t, s, err, store.FaultOutage)
			return n - from
		}
	}
}

func TestAFullStoreRefusesNewKeysAndForgetsNone(t *testing.T) {
	s := memstore.New(memstore.WithMaxLeases(6400))
	took := fill(t, s, 0, store.ClaimParams{Lease: time.Hour, Keep: time.Hour})
	if took > 6400 || took < 3200 {
		t.Errorf("it took %d leases with a bound of 6400", took)
	}
	if got := s.LeaseCount(); got != took {
		t.Errorf("LeaseCount is %d, want %d", got, took)
	}
	for n := range took {
		if c := claim(t, s, n, time.Hour, time.Hour); c.State != store.Busy {
			t.Fatalf("the key %d is %q", n, c.State)
		}
	}
}

func TestAFullStoreHasRoomAgainWhenLeasesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.WithMaxLeases(6400))
		p := store.ClaimParams{Lease: time.Minute, Keep: time.Hour}
		took := fill(t, s, 0, p)
		time.Sleep(time.Minute + time.Hour - time.Nanosecond)
		if c := claim(t, s, 0, time.Minute, time.Hour); c.State != store.Fresh || !c.Takeover {
			t.Errorf("within the keep time a lease that ran out is %q with takeover %t", c.State, c.Takeover)
		}
		time.Sleep(time.Nanosecond)
		if again := fill(t, s, took+1, p); again < 3200 {
			t.Errorf("after the keep time it took %d", again)
		}
	})
}

func TestWhatHasExpiredIsRemovedByLaterClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 20_000
		s := memstore.New()
		for n := range keys {
			c := claim(t, s, n, time.Minute, time.Hour)
			if n%2 == 0 {
				if err := s.Complete(t.Context(), c, []byte("answer")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := s.LeaseCount(); got != keys {
			t.Fatalf("LeaseCount is %d, want %d", got, keys)
		}
		time.Sleep(2 * time.Hour)
		// Each claim removes two and adds one, so the store shrinks by one; a few more because
		// the shards do not get the same number.
		for n := range keys * 12 / 10 {
			claim(t, s, keys+n, time.Nanosecond, time.Nanosecond)
			time.Sleep(2 * time.Nanosecond)
		}
		if got := s.LeaseCount(); got > 64 {
			t.Errorf("%d are left, want one for each shard at most", got)
		}
	})
}

func TestTheFirstResultStays(t *testing.T) {
	s := memstore.New()
	c := claim(t, s, 1, time.Hour, time.Hour)
	for _, result := range []string{"first", "second"} {
		if err := s.Complete(t.Context(), c, []byte(result)); err != nil {
			t.Fatal(err)
		}
		if c := claim(t, s, 1, time.Hour, time.Hour); string(c.Result) != "first" {
			t.Errorf("after the %s Complete the result is %q", result, c.Result)
		}
	}
}

func TestReleaseMakesRoom(t *testing.T) {
	s := memstore.New()
	for n := range 1000 {
		if err := s.Release(t.Context(), claim(t, s, n, time.Hour, time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.LeaseCount(); got != 0 {
		t.Errorf("%d leases are left", got)
	}
}

// The queue of a shard moves its records around; none may be lost or removed in another's
// place.
func TestLeasesInTheirQueueKeepTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 5000
		s := memstore.New()
		began := time.Now()
		ends := make(map[int]time.Duration)
		for n := range keys {
			d := time.Duration(n*7919%keys+1) * time.Second
			c := claim(t, s, n, d, time.Nanosecond)
			switch n % 3 {
			case 0:
				d = time.Duration(n*104729%keys+1) * time.Second
				if _, err := s.Extend(t.Context(), c, d); err != nil {
					t.Fatal(err)
				}
			case 1:
				if err := s.Complete(t.Context(), c, nil); err != nil {
					t.Fatal(err)
				}
				d = 0
			}
			ends[n] = d
		}
		for _, at := range []time.Duration{1, keys / 3 * time.Second, keys / 2 * time.Second, keys * time.Second} {
			time.Sleep(time.Until(began.Add(at + time.Millisecond)))
			for n := range keys {
				c := claim(t, s, n, keys*time.Second, keys*time.Second)
				want := store.Busy
				if ends[n] <= at {
					want = store.Fresh
					ends[n] = at + keys*time.Second + time.Millisecond
				}
				if c.State != want {
					t.Fatalf("after %s the key %d is %q, want %q", at, n, c.State, want)
				}
			}
		}
	})
}

func TestTokensGrowOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := claim(t, memstore.New(), 1, time.Minute, time.Hour)
		time.Sleep(time.Second)
		if c := claim(t, memstore.New(), 1, time.Minute, time.Hour); c.Token <= former.Token {
			t.Errorf("token %d after token %d of the process before", c.Token, former.Token)
		}
	})
}

func TestAWrongTermIsRefused(t *testing.T) {
	s := memstore.New()
	for _, p := range []store.ClaimParams{{}, {Lease: time.Hour}, {Keep: time.Hour}, {Lease: -1, Keep: time.Hour}, {Lease: time.Hour, Keep: -1}} {
		if _, err := s.Claim(t.Context(), leaseKey(1), p); err == nil {
			t.Errorf("Claim with %+v: no error", p)
		}
	}
	c := claim(t, s, 1, time.Hour, time.Hour)
	if _, err := s.Extend(t.Context(), c, 0); err == nil {
		t.Error("Extend by nothing: no error")
	}
}

func TestAnEndedContextClaimsNothing(t *testing.T) {
	s := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Claim(ctx, leaseKey(1), store.ClaimParams{Lease: time.Hour, Keep: time.Hour})
	wantFault(t, s, err, store.FaultCanceled)
	c := claim(t, s, 1, time.Hour, time.Hour)
	if c.State != store.Fresh {
		t.Errorf("the key is %q after a claim under an ended context", c.State)
	}
	wantFault(t, s, s.Complete(ctx, c, nil), store.FaultCanceled)
	wantFault(t, s, s.Release(ctx, c), store.FaultCanceled)
	_, err = s.Extend(ctx, c, time.Hour)
	wantFault(t, s, err, store.FaultCanceled)
	if err := s.Complete(t.Context(), c, nil); err != nil {
		t.Error(err)
	}
}

// Keys spread over the shards work side by side.
func TestConcurrentWorkOnManyKeys(t *testing.T) {
	s := memstore.New()
	const workers, keys = 8, 500
	var mu sync.Mutex
	fresh := make(map[store.LeaseKey]int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n := range keys {
				c, err := s.Claim(t.Context(), leaseKey(n), store.ClaimParams{Lease: time.Hour, Keep: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
				if c.State != store.Fresh {
					continue
				}
				if c, err = s.Extend(t.Context(), c, time.Hour); err == nil {
					err = s.Complete(t.Context(), c, c.Key[:])
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				fresh[c.Key]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for n := range keys {
		k := leaseKey(n)
		if fresh[k] != 1 {
			t.Errorf("the key %d was Fresh %d times", n, fresh[k])
		}
		if c := claim(t, s, n, time.Hour, time.Hour); c.State != store.Done || string(c.Result) != string(k[:]) {
			t.Errorf("the key %d is %q with %x", n, c.State, c.Result)
		}
	}
}
