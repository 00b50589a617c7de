package memstore_test

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func BenchmarkClaimAndComplete(b *testing.B) {
	s := memstore.New(memstore.WithMaxLeases(1 << 30))
	p := store.ClaimParams{Lease: time.Minute, Keep: time.Hour}
	result := []byte("answer")
	var mu sync.Mutex
	next := 0
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		mu.Lock()
		next++
		var key store.LeaseKey
		binary.BigEndian.PutUint64(key[8:], uint64(next))
		mu.Unlock()
		for n := uint64(0); pb.Next(); n++ {
			binary.LittleEndian.PutUint64(key[:8], n*0x9e3779b97f4a7c15>>7)
			c, err := s.Claim(context.Background(), key, p)
			if err != nil {
				b.Error(err)
				return
			}
			if err := s.Complete(context.Background(), c, result); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkReplay(b *testing.B) {
	s := memstore.New()
	p := store.ClaimParams{Lease: time.Minute, Keep: time.Hour}
	const keys = 1 << 12
	for n := range keys {
		c, err := s.Claim(context.Background(), leaseKey(n), p)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Complete(context.Background(), c, []byte("answer")); err != nil {
			b.Fatal(err)
		}
	}
	all := make([]store.LeaseKey, keys)
	for n := range all {
		all[n] = leaseKey(n)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			if c, err := s.Claim(context.Background(), all[n%keys], p); err != nil || c.State != store.Done {
				b.Errorf("%q, %v", c.State, err)
				return
			}
		}
	})
}

func BenchmarkMark(b *testing.B) {
	s := memstore.New()
	var key store.Key
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		binary.BigEndian.PutUint64(key.ID[:], uint64(n))
		u, _, err := s.Begin(context.Background(), []store.Mark{{Scope: 1, Key: key}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := u.Commit(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
