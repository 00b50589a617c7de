package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
)

// Claim implements [store.Leases] in one statement. The insert takes a key that is absent;
// its conflict branch takes over one whose time has passed, and changes nothing where the
// key is held or done. Rivals meet at the row, so exactly one of them is Fresh.
func (s *Store) Claim(ctx context.Context, key store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
	if p.Lease <= 0 || p.Keep <= 0 {
		return store.Claim{}, fmt.Errorf("pgstore: claim %x: lease %s and keep %s must be above zero", key[:4], p.Lease, p.Keep)
	}
	for {
		c, err := s.claim(ctx, key, p)
		// The row that stood in the way is not in this statement's snapshot: it was written
		// after the statement began, or removed since.
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil {
			return store.Claim{}, fmt.Errorf("pgstore: claim %x: %w", key[:4], s.own(err))
		}
		return c, nil
	}
}

// A record is free when it was released, when its answer need not be kept any longer, or
// when its holder's time is over; the last only for the same fingerprint, so that
// another payload does not run beside the half-done first, until that is forgotten too.
func (s *Store) claim(ctx context.Context, key store.LeaseKey, p store.ClaimParams) (store.Claim, error) {
	c := store.Claim{Key: key, Keep: p.Keep}
	var took, done bool
	var fingerprint []byte
	err := s.scanRow(ctx, []any{&took, &c.Token, &c.Until, &c.Takeover, &fingerprint, &c.Result, &done}, `
with taken as (
	insert into `+s.schema+`.leases as l (key, token, until, keep_until, fingerprint)
	values ($1, 1, clock_timestamp() + $2, clock_timestamp() + $3, $4::bytea)
	on conflict (key) do update
	set token = l.token + 1, until = excluded.until, keep_until = excluded.keep_until, fingerprint = excluded.fingerprint,
		overtaken = not (l.done or l.released), done = false, released = false, result = null
	where l.released or (l.until <= clock_timestamp()
		and (l.done or l.keep_until <= clock_timestamp() or $4 is null or l.fingerprint is not distinct from $4))
	returning token, until, overtaken
)
select true, token, until, overtaken, null::bytea, null::bytea, false from taken
union all
select false, 0, until, false, fingerprint, result, done
from `+s.schema+`.leases where key = $1 and not exists (select from taken)`,
		key[:], p.Lease, p.Keep, nilIfEmpty(p.Fingerprint))
	switch {
	case err != nil:
		return store.Claim{}, err
	case took:
		c.State = store.Fresh
	case len(p.Fingerprint) > 0 && string(fingerprint) != string(p.Fingerprint):
		c.State, c.Fingerprint, c.Result = store.Mismatch, fingerprint, nil
	case done:
		c.State = store.Done
	default:
		c.State = store.Busy
	}
	return c, nil
}

// Extend implements [store.Leases].
func (s *Store) Extend(ctx context.Context, c store.Claim, by time.Duration) (store.Claim, error) {
	err := s.scanRow(ctx, []any{&c.Until}, "update "+s.schema+`.leases set until = clock_timestamp() + $3
		where key = $1 and token = $2 and not done and not released returning until`, c.Key[:], c.Token, by)
	return c, s.leaseError("extend", c, err)
}

// Complete implements [store.Leases]. Completing again with the same claim finds the row done
// under its own token and stores the same thing once more.
func (s *Store) Complete(ctx context.Context, c store.Claim, result []byte) error {
	tag, err := s.exec(ctx, "update "+s.schema+`.leases set done = true, result = $3, until = clock_timestamp() + $4
		where key = $1 and token = $2 and not released`, c.Key[:], c.Token, result, c.Keep)
	if err == nil && tag.RowsAffected() == 0 {
		err = pgx.ErrNoRows
	}
	return s.leaseError("complete", c, err)
}

// Release implements [store.Leases]. The row stays, with its time over, so that its token
// goes on growing.
func (s *Store) Release(ctx context.Context, c store.Claim) error {
	tag, err := s.exec(ctx, "update "+s.schema+`.leases set released = true, until = clock_timestamp()
		where key = $1 and token = $2 and not done`, c.Key[:], c.Token)
	if err == nil && tag.RowsAffected() == 0 {
		err = pgx.ErrNoRows
	}
	return s.leaseError("release", c, err)
}

func (s *Store) leaseError(act string, c store.Claim, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("pgstore: %s %x with token %d: %w", act, c.Key[:4], c.Token, store.ErrLost)
	default:
		return fmt.Errorf("pgstore: %s %x: %w", act, c.Key[:4], s.own(err))
	}
}

func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
