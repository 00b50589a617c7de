package pgstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/semel-dev/semel/store"
)

// Purger removes marks that are older than their consumers want them kept, and what else has
// expired. It never removes dead letters.
//
// It is safe beside any number of handlers and other purgers, of which one works at a time and the
// others find nothing to do. It uses one connection of the store's pool, and none while it waits. It
// can be killed anywhere: each of its steps is one transaction, and the next pass goes on from there.
//
// How it keeps a message from having its effect twice, for a consumer that keeps its marks for K:
//
//  1. P is the time of the newest message that is settled, in the partition that is furthest behind,
//     never later than the server's clock, less K. A consumer of which nothing has been
//     heard has no P.
//  2. P is announced: written to the row of the scope, and committed. From then on a statement
//     that marks a message of a time before P does not set the mark, and the message is
//     [store.Late]. It compares in its own snapshot.
//  3. So a statement whose snapshot is older than the announcement knows an older P. If the mark of
//     a message went before such a statement reaches the index (it may be waiting for a rival,
//     or stand in a REPEATABLE READ transaction that began an hour ago), it would set it
//     anew. Therefore nothing is removed while such a snapshot is alive: the transaction that
//     announced has the number X, a snapshot that does not see it has an xmin of X or less, and the
//     server shows the xmin of every session in pg_stat_activity, to every role. The look at the
//     sessions is one statement with the one that reads X, and so comes after X has committed;
//     whatever transaction has no such xmin then, or begins afterwards, sees the announcement. Only one
//     that takes over another session's snapshot (SET TRANSACTION SNAPSHOT) at that very moment
//     does not, and it must not mark.
//  4. That P is safe is noted, and committed. Marks of times before a safe P are removed.
//
// Nobody announces anew before the last announcement is safe, so that removal gets its turn
// however many long transactions follow each other. A transaction that is prepared (two-phase) has
// no snapshot, and its marks cannot be removed before it ends.
type Purger struct {
	s     *Store
	c     purgeConfig
	older olderSnapshots
}

// NewPurger returns a purger of the store's tables. Its role needs the rights of handlers, and to
// empty, drop and make partitions it must own the tables; see [Purged].
func NewPurger(s *Store, opts ...PurgeOption) (*Purger, error) {
	if s == nil {
		return nil, errors.New("pgstore: purger: the store is nil: make one with New")
	}
	c, err := newPurgeConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("pgstore: purger: %w", err)
	}
	return &Purger{s: s, c: c}, nil
}

// Run makes a pass soon and then one in every interval, give or take a tenth so that purgers of many
// processes spread, until ctx ends, and then returns nil. A pass that fails is logged, and
// the next one tries again; an error that a person must mend, such as missing tables, ends Run.
func (p *Purger) Run(ctx context.Context) error {
	wait := time.Duration(rand.Int64N(int64(p.c.interval)/10 + 1))
	for sleep(ctx, wait) {
		done, err := p.Purge(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && p.s.Fault(err) == store.FaultSetup:
			return err
		case err != nil:
			p.c.logger.LogAttrs(ctx, slog.LevelError, "purge failed", slog.Any("error", err))
		default:
			p.log(ctx, done)
		}
		wait = time.Duration(float64(p.c.interval) * (0.9 + 0.2*rand.Float64()))
	}
	return nil
}

// Purge makes one pass and says what it did, also where it returns an error. It takes as long as
// the rows to delete take at the allowed rate.
func (p *Purger) Purge(ctx context.Context) (Purged, error) {
	turn, err := p.claimTurn(ctx)
	if err != nil || turn == nil {
		return Purged{Elsewhere: err == nil}, p.failed(err)
	}
	defer turn.release(ctx)
	w := &pass{Purger: p, turn: turn}
	err = w.run(ctx)
	return w.done, p.failed(err)
}

func (p *Purger) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgstore: purge: %w", p.s.own(err))
}

// pass is one pass at work.
type pass struct {
	*Purger
	turn *turn
	pace pace
	done Purged

	before map[int32]time.Time // where the scopes stood when it began
	scopes []scopeState        // where they stand now, in the order of done.Scopes
	owner  bool                // the role owns the tables
}

func (w *pass) run(ctx context.Context) error {
	w.pace.perSecond = w.c.rowsPerSecond
	scopes, err := w.s.scopeStates(ctx)
	if err != nil {
		return err
	}
	w.before = make(map[int32]time.Time, len(scopes))
	for i := range scopes {
		w.before[scopes[i].id] = scopes[i].Safe
	}
	if err := w.announce(ctx); err != nil {
		return err
	}
	if scopes, err = w.s.scopeStates(ctx); err != nil {
		return err
	}
	w.begin(scopes)
	for _, step := range []func(context.Context) error{
		w.purgePartitions, w.purgeRest, w.purgePlain, w.purgeAttempts, w.purgeLeases, w.makeAhead,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// turn is the right of one purger to work. Nothing depends on its being alone but the rate of
// deletion, so a turn that was lost costs no more than that.
type turn struct {
	s     *Store
	claim store.Claim
	renew time.Time
}

const turnLease = time.Minute

var turnKey = store.LeaseKey(sha256.Sum256([]byte("semel purge")))

func (p *Purger) claimTurn(ctx context.Context) (*turn, error) {
	claim, err := p.s.Claim(ctx, turnKey, store.ClaimParams{Lease: turnLease, Keep: turnLease})
	if err != nil || claim.State != store.Fresh {
		return nil, err
	}
	return &turn{p.s, claim, time.Now().Add(turnLease / 3)}, nil
}

// keep is called between two steps.
func (t *turn) keep(ctx context.Context) error {
	if time.Now().Before(t.renew) {
		return ctx.Err()
	}
	claim, err := t.s.Extend(ctx, t.claim, turnLease)
	if err == nil {
		t.claim, t.renew = claim, time.Now().Add(turnLease/3)
	}
	return err
}

func (t *turn) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = t.s.Release(ctx, t.claim) // where this fails, the lease runs out
}

// sleep returns false where ctx ends before or meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}
