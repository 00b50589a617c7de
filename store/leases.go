package store

import (
	"context"
	"time"
)

// LeaseKey names what is leased: a SHA-256 over everything that makes the operation
// the same operation, so that no value of a client's ever reaches a key space.
type LeaseKey [32]byte

// ClaimState is what a store says of a claim.
type ClaimState uint8

const (
	// Fresh: the caller holds the lease and does the work.
	Fresh ClaimState = iota + 1
	// Done: the work was completed earlier; the claim carries its result.
	Done
	// Busy: somebody else holds the lease.
	Busy
	// Mismatch: the key is known with another fingerprint. It is looked at before Busy and
	// Done, and binds a lease that has run out too, until Keep has passed since its claim.
	Mismatch
)

func (s ClaimState) String() string {
	switch s {
	case Fresh:
		return "fresh"
	case Done:
		return "done"
	case Busy:
		return "busy"
	case Mismatch:
		return "mismatch"
	default:
		return "no state"
	}
}

// ClaimParams say on what terms a key is claimed.
type ClaimParams struct {
	// Lease is how long the claim holds without an Extend, on the store's clock.
	Lease time.Duration
	// Keep is how long the result is kept after Complete, on the store's clock.
	Keep time.Duration
	// Fingerprint, where not empty, must equal that of whoever came first.
	Fingerprint []byte
}

// Claim is the answer to one Claim call.
type Claim struct {
	Key   LeaseKey
	State ClaimState
	// Token fences: it grows with every takeover of the key, so work that carries it
	// can be refused by whoever saw a later one. It is set when State is Fresh.
	Token int64
	// Takeover says that an earlier holder let its lease run out: it may have died in
	// the middle of the work, or be still at it.
	Takeover bool
	// Until is when the lease ends, as the store sees it. Fresh: this claim's; Busy: the
	// holder's. Use it for a Retry-After and for nothing that must be right.
	Until time.Time
	// Result is what Complete was given, when State is Done.
	Result []byte
	// Fingerprint is that of whoever came first, when State is Mismatch.
	Fingerprint []byte
	// Keep is that of the claim's parameters, for Complete.
	Keep time.Duration
}

// Leases let one holder at a time work on a key and replay its answer to the others.
// Implementations are safe for concurrent use. All times are the store's.
type Leases interface {
	// Claim asks for the key. A record whose lease or keep time has passed counts as
	// taken over or absent even where nothing has removed it yet.
	Claim(ctx context.Context, key LeaseKey, p ClaimParams) (Claim, error)

	// Extend moves the end of a held lease to now + by. [ErrLost] when it is no longer held.
	Extend(ctx context.Context, c Claim, by time.Duration) (Claim, error)

	// Complete stores the result and ends the lease. [ErrLost] when it was taken over:
	// nothing is stored then. A lease that has merely run out and that nobody has taken
	// is completed. An error other than ErrLost leaves open whether it was stored;
	// calling again with the same claim is safe.
	Complete(ctx context.Context, c Claim, result []byte) error

	// Release gives the key back undone, so that the next claim is Fresh. [ErrLost] when it
	// was taken over.
	Release(ctx context.Context, c Claim) error
}
