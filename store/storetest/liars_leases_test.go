package storetest_test

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
	"github.com/semel-dev/semel/store/storetest"
)

type leasesPlace = storetest.LeasesPlace

// leasesLiars lie about leases.
func leasesLiars() []liar {
	return []liar{
		{"each process has its own leases", []string{"fresh then busy", "a claim travels"}, sitLeases(func(p *leasesPlace, _ *bentLeases) {
			p.Open = func() store.Leases { return memstore.New() }
		})},
		{"a claim without a token", []string{"fresh then busy"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.bendClaims(func(c *store.Claim) { c.Token = 0 })
		})},
		{"does not say until when", []string{"fresh then busy"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.bendClaims(func(c *store.Claim) {
				if c.State == store.Busy {
					c.Until = time.Time{}
				}
			})
		})},
		{"keys of 31 bytes", []string{"keys are separate"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			claim := b.claim
			b.claim = func(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
				whole := k
				k[31] = 0
				c, err := claim(ctx, k, p)
				c.Key = whole
				return c, err
			}
		})},
		{"looks and claims later", []string{"fifty claimants", "fifty take over"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			claim := b.claim
			var mu sync.Mutex
			taken := make(map[store.LeaseKey]time.Time)
			b.claim = func(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
				mu.Lock()
				until, held := taken[k]
				held = held && time.Now().Before(until)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				taken[k] = time.Now().Add(p.Lease)
				mu.Unlock()
				c, err := claim(ctx, k, p)
				if !held {
					c.State = store.Fresh
				}
				return c, err
			}
		})},
		{"busy before another fingerprint", []string{"another fingerprint"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			claim := b.claim
			b.claim = func(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
				c, err := claim(ctx, k, p)
				if c.State == store.Mismatch {
					p.Fingerprint = nil
					if other, _ := claim(ctx, k, p); other.State == store.Busy {
						return other, nil
					}
				}
				return c, err
			}
		})},
		{"done before another fingerprint", []string{"another fingerprint"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			claim := b.claim
			b.claim = func(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
				c, err := claim(ctx, k, p)
				if c.State == store.Mismatch {
					p.Fingerprint = nil
					if other, _ := claim(ctx, k, p); other.State == store.Done {
						return other, nil
					}
				}
				return c, err
			}
		})},
		{"no fingerprint is a fingerprint", []string{"no fingerprint"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			claim := b.claim
			b.claim = func(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
				p.Fingerprint = append([]byte("="), p.Fingerprint...)
				return claim(ctx, k, p)
			}
		})},
		{"release waits for the end of the lease", []string{"release"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.release = func(context.Context, store.Claim) error { return nil }
		})},
		{"tokens begin again", []string{"release", "keep"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.bendClaims(func(c *store.Claim) {
				if c.State == store.Fresh && !c.Takeover {
					c.Token = 1
				}
			})
			release, complete := b.release, b.complete
			b.release = func(ctx context.Context, c store.Claim) error { return release(ctx, b.last(c)) }
			b.complete = func(ctx context.Context, c store.Claim, result []byte) error { return complete(ctx, b.last(c), result) }
		})},
		{"completes what is free", []string{"released is given up"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			complete := b.complete
			b.complete = func(ctx context.Context, c store.Claim, result []byte) error {
				err := complete(ctx, c, result)
				if err != nil {
					if c, _ = b.claim(ctx, c.Key, store.ClaimParams{Lease: time.Hour, Keep: time.Hour}); c.State == store.Fresh {
						return complete(ctx, c, result)
					}
				}
				return err
			}
		})},
		{"nil becomes empty", []string{"done with the result"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.bendResults(func(r []byte) []byte { return append([]byte{}, r...) })
		})},
		{"empty becomes nil", []string{"done with the result"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.bendResults(func(r []byte) []byte { return append([]byte(nil), r...) })
		})},
		{"results are text", []string{"done with the result"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.bendResults(func(r []byte) []byte { return bytes.ToValidUTF8(r, []byte("?")) })
		})},
		{"results end at 64 kB", []string{"a large result"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.bendResults(func(r []byte) []byte { return r[:min(len(r), 1<<16)] })
		})},
		{"completes once", []string{"complete twice"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			complete, completed := b.complete, make(map[store.LeaseKey]bool)
			b.complete = func(ctx context.Context, c store.Claim, result []byte) error {
				if completed[c.Key] {
					return store.ErrLost
				}
				completed[c.Key] = true
				return complete(ctx, c, result)
			}
		})},
		{"extends what is done", []string{"completed is final"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.extend = func(_ context.Context, c store.Claim, _ time.Duration) (store.Claim, error) { return c, nil }
		})},
		{"releases what is done", []string{"completed is final"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.release = func(context.Context, store.Claim) error { return nil }
		})},
		{"keeps the caller's result", []string{"buffers"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			complete, kept := b.complete, []byte(nil)
			b.complete = func(ctx context.Context, c store.Claim, result []byte) error {
				kept = result
				return complete(ctx, c, result)
			}
			b.bendClaims(func(c *store.Claim) {
				if c.State == store.Done {
					c.Result = kept
				}
			})
		})},
		{"takes over in silence", []string{"takeover", "fifty take over", "extend"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.bendClaims(func(c *store.Claim) { c.Takeover = false })
		})},
		{"leases never end", []string{"takeover"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			claim := b.claim
			b.claim = func(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
				p.Lease = max(p.Lease, time.Hour)
				return claim(ctx, k, p)
			}
		})},
		{"a takeover has the former token", []string{"takeover", "extend"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			first := int64(0)
			b.bendClaims(func(c *store.Claim) {
				if first == 0 {
					first = c.Token
				}
				c.Token = first
			})
		})},
		{"refuses what came late", []string{"completed though run out"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			complete := b.complete
			b.complete = func(ctx context.Context, c store.Claim, result []byte) error {
				if time.Now().After(c.Until) {
					return store.ErrLost
				}
				return complete(ctx, c, result)
			}
		})},
		{"extends from the former end", []string{"extend"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			extend := b.extend
			b.extend = func(ctx context.Context, c store.Claim, by time.Duration) (store.Claim, error) {
				return extend(ctx, c, time.Until(c.Until)+by)
			}
		})},
		{"extends nothing", []string{"extend"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			b.extend = func(_ context.Context, c store.Claim, by time.Duration) (store.Claim, error) {
				c.Until = time.Now().Add(by)
				return c, nil
			}
		})},
		{"keeps results for ever", []string{"keep"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			claim := b.claim
			b.claim = func(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
				asked := p.Keep
				p.Keep *= 1000
				c, err := claim(ctx, k, p)
				if c.State == store.Fresh {
					c.Keep = asked
				}
				return c, err
			}
		})},
		{"keeps results from the claim on", []string{"keep"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			complete, began := b.complete, make(map[store.LeaseKey]time.Time)
			b.bendClaims(func(c *store.Claim) {
				if c.State == store.Fresh {
					began[c.Key] = time.Now()
				}
			})
			b.complete = func(ctx context.Context, c store.Claim, result []byte) error {
				if time.Since(began[c.Key]) > c.Keep {
					return nil
				}
				return complete(ctx, c, result)
			}
		})},
		{
			"does not compare tokens",
			[]string{"overtaken while the next one works", "overtaken after the next one's end", "overtaken more than once"},
			sitLeases(func(_ *leasesPlace, b *bentLeases) {
				extend, complete, release := b.extend, b.complete, b.release
				b.bendClaims(func(*store.Claim) {})
				b.extend = func(ctx context.Context, c store.Claim, by time.Duration) (store.Claim, error) {
					return extend(ctx, b.last(c), by)
				}
				b.complete = func(ctx context.Context, c store.Claim, result []byte) error { return complete(ctx, b.last(c), result) }
				b.release = func(ctx context.Context, c store.Claim) error { return release(ctx, b.last(c)) }
			}),
		},
		{"says nothing of a loss", []string{"overtaken while the next one works", "overtaken more than once"}, sitLeases(func(_ *leasesPlace, b *bentLeases) {
			release := b.release
			b.release = func(ctx context.Context, c store.Claim) error { _ = release(ctx, c); return nil }
		})},
		{"remembers claims in the process", []string{"a claim travels"}, sitLeases(func(p *leasesPlace, b *bentLeases) {
			p.Open = func() store.Leases {
				own, mine := &bentLeases{extend: b.extend, complete: b.complete}, make(map[int64]bool)
				own.claim = func(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
					c, err := b.claim(ctx, k, p)
					mine[c.Token] = true
					return c, err
				}
				own.release = func(ctx context.Context, c store.Claim) error {
					if !mine[c.Token] {
						return store.ErrLost
					}
					return b.release(ctx, c)
				}
				return own
			}
		})},
	}
}

// bendClaims changes every answer to a claim, and keeps the true token of every key.
func (b *bentLeases) bendClaims(bend func(c *store.Claim)) {
	claim := b.claim
	b.tokens = make(map[store.LeaseKey]int64)
	b.claim = func(ctx context.Context, k store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
		c, err := claim(ctx, k, p)
		b.mu.Lock()
		defer b.mu.Unlock()
		if c.State == store.Fresh {
			b.tokens[k] = c.Token
		}
		bend(&c)
		return c, err
	}
}

// last gives a claim the token that the key has now.
func (b *bentLeases) last(c store.Claim) store.Claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.Token = b.tokens[c.Key]
	return c
}

func (b *bentLeases) bendResults(bend func(result []byte) []byte) {
	complete := b.complete
	b.complete = func(ctx context.Context, c store.Claim, result []byte) error {
		return complete(ctx, c, bend(result))
	}
}
