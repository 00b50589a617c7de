package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

var (
	_ store.Burier[*Tx] = (*Store)(nil)
	_ store.DeadLetters = (*Store)(nil)
)

// BuryTx implements [store.Burier]. The letter gets its ID and its BuriedAt at the commit.
func (s *Store) BuryTx(ctx context.Context, tx *Tx, d store.DeadLetter) error {
	if tx.s != s {
		return failf(store.FaultHandler, "bury: the transaction belongs to another store")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := tx.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return tx.spoil(failf(store.FaultCanceled, "bury: %w", err))
	}
	tx.dead = append(tx.dead, cloneLetter(d))
	return nil
}

// ListDead implements [store.DeadLetters].
func (s *Store) ListDead(ctx context.Context, consumer string, after int64, limit int) ([]store.DeadLetter, error) {
	if err := ctx.Err(); err != nil {
		return nil, failf(store.FaultCanceled, "list dead letters: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead.list(consumer, after, limit), nil
}

// GetDead implements [store.DeadLetters].
func (s *Store) GetDead(ctx context.Context, id int64) (store.DeadLetter, error) {
	if err := ctx.Err(); err != nil {
		return store.DeadLetter{}, failf(store.FaultCanceled, "get dead letter %d: %w", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.dead.find(id)
	if !ok {
		return store.DeadLetter{}, fmt.Errorf("memstore: get dead letter %d: %w", id, store.ErrNotFound)
	}
	return cloneLetter(s.dead.letters[i]), nil
}

// DiscardDead implements [store.DeadLetters].
func (s *Store) DiscardDead(ctx context.Context, ids ...int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, failf(store.FaultCanceled, "discard dead letters: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, id := range ids {
		if i, ok := s.dead.find(id); ok {
			s.dead.letters = slices.Delete(s.dead.letters, i, i+1)
			n++
		}
	}
	return n, nil
}

// graveyard holds letters in the order of their IDs.
type graveyard struct {
	lastID  int64
	letters []store.DeadLetter
}

func (g *graveyard) bury(d store.DeadLetter) {
	g.lastID++
	d.ID = g.lastID
	d.BuriedAt = time.Now()
	g.letters = append(g.letters, d)
}

func (g *graveyard) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(g.letters, id, func(d store.DeadLetter, id int64) int {
		return cmp.Compare(d.ID, id)
	})
}

func (g *graveyard) list(consumer string, after int64, limit int) []store.DeadLetter {
	var found []store.DeadLetter
	from, there := g.find(after)
	if there {
		from++
	}
	for _, d := range g.letters[from:] {
		if len(found) >= limit {
			break
		}
		if consumer == "" || d.Consumer == consumer {
			found = append(found, cloneLetter(d))
		}
	}
	return found
}

// cloneLetter copies what the caller may change: consumers reuse their buffers.
func cloneLetter(d store.DeadLetter) store.DeadLetter {
	d.KeyText = bytes.Clone(d.KeyText)
	d.MessageKey = bytes.Clone(d.MessageKey)
	d.Body = bytes.Clone(d.Body)
	d.Headers = slices.Clone(d.Headers)
	for i := range d.Headers {
		d.Headers[i].Value = bytes.Clone(d.Headers[i].Value)
	}
	return d
}
