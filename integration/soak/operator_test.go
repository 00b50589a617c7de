//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// An operator repairs what was wrong with a message that was given up, and runs it again with what waits behind it; what
// has no id is discarded. It goes on in the middle of everything else.

// guardOf is a group's guard in this process.
func (w *world) guardOf(g *group) (*dedup.TxGuard[pgx.Tx], error) {
	o := orders{Name: g.name + "-operator", Group: g.name, DSN: w.db.DSN()}
	j, err := openJournal(filepath.Join(w.dir, o.Name+".journal"))
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { check(w.t, j.file.Close()) })
	pool, err := o.pool(w.t.Context())
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(pool.Close)
	s, err := pgstore.New(pool, pgstore.WithLockWait(lockWait))
	if err != nil {
		return nil, err
	}
	out, err := outbox.NewWriter(s)
	if err != nil {
		return nil, err
	}
	return o.guard(s, &clerk{child: o.Name, group: g.name, journal: j, outbox: out})
}

// atOnce is how many keys or events an operator looks at in the middle of the work.
const atOnce = 1

// operate does a little, in all groups where something waits.
func (c *chaos) operate(ctx context.Context) error {
	for _, g := range c.groups {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := c.runAgain(limited, g, atOnce); err != nil {
			c.tally.add("put off by an operator") // as when a consumer holds the key
			c.t.Logf("        the operator of %s: %v", g.name, err)
		}
		cancel()
	}
	return ctx.Err()
}

// runAgain works on what waits in a group.
func (w *world) runAgain(ctx context.Context, g *group, most int) error {
	switch g.name {
	case parking:
		return w.replayKeys(ctx, g, most)
	case stored:
		return w.retryKept(ctx, g, most)
	}
	return nil
}

func (w *world) replayKeys(ctx context.Context, g *group, most int) error {
	keys, err := w.store.ParkedKeys(ctx, g.name, most)
	if err != nil {
		return err
	}
	for _, k := range keys {
		head, err := w.store.GetDead(ctx, k.Head)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err == nil {
			err = w.treat(ctx, g, head)
		}
		if err != nil {
			return err
		}
		n, err := g.guard.ReplayKey(ctx, k.Order)
		w.tally.addN("letters run again", n)
		if err != nil {
			return fmt.Errorf("replay %q: %w", k.Order, err)
		}
		w.tally.add("parked keys run again")
	}
	return nil
}

// treat repairs or discards.
func (w *world) treat(ctx context.Context, g *group, d store.DeadLetter) error {
	m, err := parse(d.Body)
	if err != nil {
		return err
	}
	if m.Kind != nameless {
		return w.repair(ctx, g, m.ID)
	}
	// It is noted first: an operator who hears no answer may have discarded it.
	w.mu.Lock()
	w.discarded[d.ID] = d
	w.mu.Unlock()
	_, err = w.store.DiscardDead(ctx, d.ID)
	return err
}

func (w *world) repair(ctx context.Context, g *group, id string) error {
	_, err := w.pool.Exec(ctx, "insert into "+g.name+".repairs (id) values ($1) on conflict do nothing", id)
	return err
}

func (w *world) retryKept(ctx context.Context, g *group, most int) error {
	list, err := w.box.ListWaiting(ctx, store.WaitingFilter{State: store.Parked}, 0, most)
	if err != nil || len(list) == 0 {
		return err
	}
	f := store.WaitingFilter{State: store.Parked}
	for _, e := range list {
		m, err := kept(e)
		if err == nil {
			err = w.repair(ctx, g, m.ID)
		}
		if err != nil {
			return err
		}
		f.IDs = append(f.IDs, e.ID)
	}
	n, err := w.box.RetryWaiting(ctx, f, len(f.IDs))
	w.tally.addN("stored messages retried", n)
	return err
}

// kept is the message that an event keeps.
func kept(e store.WaitingEvent) (message, error) {
	m, err := inbox.Message(e.Event)
	if err != nil {
		return message{}, err
	}
	return parse(m.Body)
}

// letters are all of a consumer, oldest first.
func letters(ctx context.Context, s *pgstore.Store, consumer string) (all []store.DeadLetter, err error) {
	for after := int64(0); ; {
		page, err := s.ListDead(ctx, store.LetterFilter{Consumer: consumer}, after, 100)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all, after = append(all, page...), page[len(page)-1].ID
	}
}
