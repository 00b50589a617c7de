package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

func key(name string) store.LeaseKey { return sha256.Sum256([]byte(name)) }

// leasesCase is the place of one case.
type leasesCase struct {
	LeasesHarness
	LeasesPlace
}

// long are terms that nothing in a case outlives.
func (c *leasesCase) long() store.ClaimParams {
	return store.ClaimParams{Lease: time.Hour, Keep: 2 * time.Hour}
}

// short are terms whose lease can be waited out, and its result kept.
func (c *leasesCase) short() store.ClaimParams {
	return store.ClaimParams{Lease: c.Lease, Keep: time.Hour}
}

// runOut lets a short lease run out.
func (c *leasesCase) runOut() { c.pass(c.Lease + c.Lease/2) }

func (c *leasesCase) pass(d time.Duration) {
	if c.Pass != nil {
		c.Pass(d)
		return
	}
	time.Sleep(d)
}

// leasesStore is a store opened by a case, with the acts that cases are made of.
type leasesStore struct {
	*exam
	store.Leases
}

func (c *leasesCase) open(e *exam) *leasesStore {
	return &leasesStore{e, c.Open()}
}

type claimed struct {
	store.Claim
	err error
}

func (s *leasesStore) tryClaim(ctx context.Context, k store.LeaseKey, p store.ClaimParams) claimed {
	p.Fingerprint = bytes.Clone(p.Fingerprint)
	c, err := s.Leases.Claim(ctx, k, p)
	return claimed{c, err}
}

// claimAs claims a key, which must get the state.
func (s *leasesStore) claimAs(want store.ClaimState, k store.LeaseKey, p store.ClaimParams) store.Claim {
	s.Helper()
	c := within(s.exam, "Claim", func(ctx context.Context) claimed { return s.tryClaim(ctx, k, p) })
	s.check("Claim", c.err)
	if c.State != want {
		s.failf("Claim is %q where %q is right", c.State, want)
	}
	if c.Key != k {
		s.failf("Claim of %x answers for %x", k, c.Key)
	}
	return c.Claim
}

// fresh claims a key that must be had.
func (s *leasesStore) fresh(k store.LeaseKey, p store.ClaimParams) store.Claim {
	s.Helper()
	c := s.claimAs(store.Fresh, k, p)
	if c.Token == 0 {
		s.failf("a Fresh claim without a token")
	}
	if c.Keep != p.Keep {
		s.failf("Keep is %s where %s was asked for", c.Keep, p.Keep)
	}
	return c
}

// done claims a key that must be done with the result.
func (s *leasesStore) done(k store.LeaseKey, p store.ClaimParams, want []byte) {
	s.Helper()
	c := s.claimAs(store.Done, k, p)
	if !bytes.Equal(c.Result, want) || (c.Result == nil) != (want == nil) {
		s.failf("the result is %s where %s was completed", brief(c.Result), brief(want))
	}
}

func (s *leasesStore) tryComplete(c store.Claim, result []byte) error {
	s.Helper()
	return within(s.exam, "Complete", func(ctx context.Context) error {
		return s.Leases.Complete(ctx, c, result)
	})
}

func (s *leasesStore) complete(c store.Claim, result []byte) {
	s.Helper()
	s.check("Complete", s.tryComplete(c, result))
}

func (s *leasesStore) release(c store.Claim) error {
	s.Helper()
	return within(s.exam, "Release", func(ctx context.Context) error {
		return s.Leases.Release(ctx, c)
	})
}

func (s *leasesStore) extend(c store.Claim, by time.Duration) claimed {
	s.Helper()
	return within(s.exam, "Extend", func(ctx context.Context) claimed {
		c, err := s.Leases.Extend(ctx, c, by)
		return claimed{c, err}
	})
}

func (s *leasesStore) lost(act string, err error) {
	s.Helper()
	if !errors.Is(err, store.ErrLost) {
		s.failf("%s: error %v where ErrLost is right", act, err)
	}
}

// crowd lets fifty claim one key at once.
func (c *leasesCase) crowd(e *exam, k store.LeaseKey, takeover bool) {
	e.Helper()
	stores := []*leasesStore{c.open(e), c.open(e)}
	var answers []<-chan claimed
	for i := range 50 {
		s := stores[i%2]
		answers = append(answers, begun(e, func(ctx context.Context) claimed { return s.tryClaim(ctx, k, c.long()) }))
	}
	var states []store.ClaimState
	for _, ch := range answers {
		a := within(e, "Claim", func(context.Context) claimed { return <-ch })
		e.check("Claim", a.err)
		states = append(states, a.State)
		if a.State == store.Fresh && a.Takeover != takeover {
			e.failf("the Fresh one has Takeover %t", a.Takeover)
		}
	}
	slices.Sort(states)
	if states[0] != store.Fresh || states[1] != store.Busy || states[49] != store.Busy {
		e.failf("states %v", states)
	}
}

// brief shows bytes without filling the screen.
func brief(b []byte) string {
	switch {
	case b == nil:
		return "nil"
	case len(b) > 64:
		return fmt.Sprintf("%d bytes with digest %x", len(b), sha256.Sum256(b))
	default:
		return fmt.Sprintf("%q", b)
	}
}
