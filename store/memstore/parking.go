package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

// orderKey is an ordering key of a consumer.
type orderKey struct {
	consumer string
	order    store.ID
}

func (k orderKey) lock() lockKey {
	return lockKey{kind: orderLock, name: k.consumer, order: k.order}
}

// lookParked blocks the new marks of parked keys. It holds such a key together with others of
// its kind, so that nobody releases the key while a message may be going behind it.
func (s *Store) lookParked(ctx context.Context, tx *Tx, marks []store.Mark, statuses []store.Status, deadline time.Time) error {
	byOrder := func(a, b *store.Mark) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), bytes.Compare(a.Order[:], b.Order[:]))
	}
	for _, i := range sorted(marks, byOrder) {
		c, known := s.scopes[marks[i].Scope]
		if statuses[i] != store.New || marks[i].Order.IsZero() || !known {
			continue
		}
		k := orderKey{c.name, marks[i].Order}
		if !s.dead.isParked(k) {
			continue
		}
		if err := s.share(ctx, tx, k.lock(), deadline); err != nil {
			return err
		}
		// Whoever was waited for may have released it.
		if s.dead.isParked(k) {
			statuses[i] = store.Blocked
		}
	}
	return nil
}

// queueOf is the ordering key in whose queue a letter stands, if it stands in one.
func queueOf(d *store.DeadLetter) (orderKey, bool) {
	if len(d.Order) == 0 || d.State > store.Waiting {
		return orderKey{}, false
	}
	return orderKey{d.Consumer, store.OrderID(d.Order)}, true
}

// ParkedKeys implements [store.DeadLetters].
func (s *Store) ParkedKeys(ctx context.Context, consumer string, limit int) ([]store.ParkedKey, error) {
	if err := ctx.Err(); err != nil {
		return nil, failf(store.FaultCanceled, "list parked keys: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []store.ParkedKey
	for k, since := range s.dead.parked {
		if consumer != "" && consumer != k.consumer {
			continue
		}
		queue := s.dead.queues[k]
		i, _ := s.dead.find(queue[0])
		head := &s.dead.letters[i]
		keys = append(keys, store.ParkedKey{
			Consumer: k.consumer, Order: bytes.Clone(head.Order),
			Head: head.ID, Reason: head.Reason, Since: since, Waiting: len(queue) - 1,
		})
	}
	slices.SortFunc(keys, func(a, b store.ParkedKey) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Head, b.Head))
	})
	return keys[:min(len(keys), max(limit, 0))], nil
}
