package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
)

// Hold implements [store.Member].
func (m *member) Hold(ctx context.Context) (store.Holding, error) {
	// Read before the question is sent, so that the lease ends here no later than there.
	asked := time.Now()
	owned, clean, relays, err := m.hold(ctx)
	if err != nil {
		return store.Holding{}, fmt.Errorf("pgstore: hold slots as %s: %w", m.name, m.s.own(err))
	}
	// Slots are prolonged when a third of the lease has passed, so that two thirds is what
	// every one of them has at the least.
	h := store.Holding{Until: asked.Add(m.lease * 2 / 3)}
	for slot, had := range m.slots {
		now, have := owned[int16(slot)]
		switch {
		case !have && had == nil:
		case !have:
			m.forget(int16(slot))
			h.Lost = append(h.Lost, int16(slot))
		case had == nil:
			m.gain(int16(slot), now)
			h.Gained = append(h.Gained, store.Gain{Slot: int16(slot), Suspect: !clean[int16(slot)]})
		case had.token != now.token:
			// Lost and taken again in between.
			m.forget(int16(slot))
			m.gain(int16(slot), now)
			h.Lost = append(h.Lost, int16(slot))
			h.Gained = append(h.Gained, store.Gain{Slot: int16(slot), Suspect: !clean[int16(slot)]})
		case had.changed != now.changed:
			had.changed = now.changed
			h.Changed = append(h.Changed, int16(slot))
		}
	}
	share := (store.Slots + max(relays, 1) - 1) / max(relays, 1)
	h.Surplus = max(0, len(owned)-share)
	return h, nil
}

type ownedSlot struct{ token, changed int64 }

func (m *member) hold(ctx context.Context) (owned map[int16]ownedSlot, clean map[int16]bool, relays int, err error) {
	conn, err := m.s.acquire(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	defer conn.Release()
	lease := m.lease.Microseconds()
	b := &pgx.Batch{}
	b.Queue(m.sql.beat, m.name, lease)
	b.Queue(m.sql.extend, m.name, lease)
	b.Queue(m.sql.take, m.name, lease)
	b.Queue(m.sql.own, m.name)
	results := conn.SendBatch(ctx, b)
	defer func() {
		if closeErr := results.Close(); err == nil {
			err = closeErr
		}
	}()
	for range 2 {
		if _, err = results.Exec(); err != nil {
			return nil, nil, 0, err
		}
	}
	clean = map[int16]bool{}
	rows, _ := results.Query() // its error comes back from the rows
	var slot int16
	var wasClean bool
	if _, err = pgx.ForEachRow(rows, []any{&slot, &wasClean}, func() error {
		clean[slot] = wasClean
		return nil
	}); err != nil {
		return nil, nil, 0, err
	}
	owned = map[int16]ownedSlot{}
	rows, _ = results.Query()
	var o ownedSlot
	_, err = pgx.ForEachRow(rows, []any{&slot, &o.token, &o.changed, &relays}, func() error {
		owned[slot] = o
		return nil
	})
	return owned, clean, relays, err
}

// Release implements [store.Member].
func (m *member) Release(ctx context.Context, slots ...int16) error {
	var numbers pgtype.FlatArray[int16]
	var tokens pgtype.FlatArray[int64]
	for _, slot := range slots {
		if held := m.slots[slot]; held != nil {
			numbers, tokens = append(numbers, slot), append(tokens, held.token)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	if _, err := m.s.pool.Exec(ctx, m.sql.release, numbers, tokens); err != nil {
		return fmt.Errorf("pgstore: release %d slots as %s: %w", len(numbers), m.name, m.s.own(err))
	}
	for _, slot := range numbers {
		m.forget(slot)
	}
	return nil
}

// Leave implements [store.Member].
func (m *member) Leave(ctx context.Context) error {
	if _, err := m.s.pool.Exec(ctx, m.sql.leave, m.name); err != nil {
		return fmt.Errorf("pgstore: leave as %s: %w", m.name, m.s.own(err))
	}
	return nil
}
