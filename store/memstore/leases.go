package memstore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

var _ store.Leases = (*Store)(nil)

// Claim implements [store.Leases]. At the bound of [WithMaxLeases] a key that is not known
// is refused with [ErrFull].
func (s *Store) Claim(ctx context.Context, key store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
	if err := ctx.Err(); err != nil {
		return store.Claim{}, failf(store.FaultCanceled, "claim: %w", err)
	}
	if p.Lease <= 0 || p.Keep <= 0 {
		return store.Claim{}, fmt.Errorf("memstore: claim: Lease is %s and Keep is %s: both must be above zero", p.Lease, p.Keep)
	}
	c, err := s.leases.shard(key).claim(key, p)
	// What is stored is never written to again, so the copies, which may be large, are made
	// after the shard is free for others.
	c.Result = bytes.Clone(c.Result)
	c.Fingerprint = bytes.Clone(c.Fingerprint)
	return c, err
}

func (sh *shard) claim(key store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	sh.tidy(now)

	r, known := sh.lookup(key, now)
	switch {
	case !known:
		if len(sh.records) >= sh.limit {
			return store.Claim{}, failf(store.FaultOutage, "claim: %w", ErrFull)
		}
		r = &record{key: key, fingerprint: bytes.Clone(p.Fingerprint)}
	case len(p.Fingerprint) > 0 && !bytes.Equal(p.Fingerprint, r.fingerprint):
		return store.Claim{Key: key, State: store.Mismatch, Fingerprint: r.fingerprint}, nil
	case r.done:
		return store.Claim{Key: key, State: store.Done, Result: r.result}, nil
	case now.Before(r.until):
		return store.Claim{Key: key, State: store.Busy, Until: r.until}, nil
	}
	sh.token++
	r.token = sh.token
	r.keep = p.Keep
	r.until = now.Add(p.Lease)
	sh.put(r)
	return store.Claim{
		Key:      key,
		State:    store.Fresh,
		Token:    r.token,
		Takeover: known,
		Until:    r.until,
		Keep:     p.Keep,
	}, nil
}

// Extend implements [store.Leases]. A lease that ran out and that nobody has taken is held
// again.
func (s *Store) Extend(ctx context.Context, c store.Claim, by time.Duration) (store.Claim, error) {
	if by <= 0 {
		return c, fmt.Errorf("memstore: extend: a lease cannot be extended by %s: the time must be above zero", by)
	}
	err := s.withHeld(ctx, "extend", c, func(sh *shard, r *record, now time.Time) error {
		if r.done {
			return store.ErrLost
		}
		r.until = now.Add(by)
		sh.put(r)
		c.Until = r.until
		return nil
	})
	return c, err
}

// Complete implements [store.Leases].
func (s *Store) Complete(ctx context.Context, c store.Claim, result []byte) error {
	kept := bytes.Clone(result)
	return s.withHeld(ctx, "complete", c, func(sh *shard, r *record, now time.Time) error {
		// Completing twice is what a caller does who got no answer. The first result
		// may have been replayed already, so it stays.
		if r.done {
			return nil
		}
		r.done = true
		r.result = kept
		r.until = now.Add(r.keep)
		sh.put(r)
		return nil
	})
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, c store.Claim) error {
	return s.withHeld(ctx, "release", c, func(sh *shard, r *record, _ time.Time) error {
		if r.done {
			return store.ErrLost
		}
		sh.remove(r)
		return nil
	})
}

// LeaseCount returns how many leases and results are held or kept at the moment. Those that
// have expired count until a later claim has removed them.
func (s *Store) LeaseCount() int {
	n := 0
	for i := range s.leases.shards {
		sh := &s.leases.shards[i]
		sh.mu.Lock()
		n += len(sh.records)
		sh.mu.Unlock()
	}
	return n
}

// withHeld calls f with the record whose token is the claim's, under the shard's lock. Nothing
// of an overtaken holder gets past the comparison.
func (s *Store) withHeld(ctx context.Context, act string, c store.Claim, f func(*shard, *record, time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return failf(store.FaultCanceled, "%s: %w", act, err)
	}
	sh := s.leases.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	r, known := sh.lookup(c.Key, now)
	err := store.ErrLost
	if known && r.token == c.Token {
		err = f(sh, r, now)
	}
	if err != nil {
		return fmt.Errorf("memstore: %s: %w", act, err)
	}
	return nil
}
