package pgstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
)

var _ store.Queue = (*Store)(nil)

// Join implements [store.Queue].
func (s *Store) Join(relay string, lease time.Duration) store.Member {
	return &member{
		s: s, sql: s.outboxSQL(), name: relay, lease: lease,
		waiting: map[int64]int16{}, heldFloors: map[heldPlace]int64{}, lowered: map[heldPlace]bool{},
		reader: newRowReader(),
	}
}

// member is one relay's view. All of it is memory that a crash may take: what it says about
// the tables is a hint, and what must be right is compared in the statements.
type member struct {
	s     *Store
	sql   *outboxStatements
	name  string
	lease time.Duration

	slots [store.Slots]*heldSlot
	// turn is where reading the flow begins next, so that every slot has its turn.
	turn int
	flow flowReading
	// waiting are the numbers of waiting rows in the relay's hands, each with its slot.
	waiting map[int64]int16
	// heldFloors spare walking over held rows that were sent. Only this member adds held rows
	// to its slots, so unlike in the flow nothing can come late below them.
	heldFloors map[heldPlace]int64
	lowered    map[heldPlace]bool
	reader     *rowReader
	// missed deletes rows that were not where they had been read.
	missed []step
}

// heldSlot is a slot that the member holds.
type heldSlot struct {
	token, changed int64
	// floor is up to where the flow was read. Below top a row read again may be in hand.
	floor, top int64
	// hand are the numbers of flowing rows in the relay's hands, with where they lie.
	hand map[int64]pgtype.TID
}

type heldPlace struct {
	slot               int16
	destination, topic string
}

func (m *member) gain(slot int16, o ownedSlot) {
	m.slots[slot] = &heldSlot{token: o.token, changed: o.changed, hand: map[int64]pgtype.TID{}}
}

// forget drops a slot and what is remembered of its rows.
func (m *member) forget(slot int16) {
	m.slots[slot] = nil
	for seq, at := range m.waiting {
		if at == slot {
			delete(m.waiting, seq)
		}
	}
	for place := range m.heldFloors {
		if place.slot == slot {
			delete(m.heldFloors, place)
		}
	}
}

// Next implements [store.Member].
func (m *member) Next(ctx context.Context, done store.Settlement, want store.Want) (store.Batch, error) {
	var batch store.Batch
	steps := m.plan(&done, &want, &batch)
	err := m.run(ctx, steps)
	if err == nil && m.missed != nil {
		err = m.run(ctx, m.missed)
	}
	m.missed = nil
	if err != nil {
		m.flow.failed()
		return store.Batch{}, fmt.Errorf("pgstore: relay %s: %w", m.name, m.s.own(err))
	}
	m.settled(&done, batch.Lost)
	m.give(&batch)
	return batch, nil
}

// step is a statement and what is done with its rows, or else with its tag.
type step struct {
	sql  string
	args []any
	read func(pgx.Rows) error
	done func(pgconn.CommandTag)
}

// plan makes the statements that settle and read, none where nothing needs the server.
func (m *member) plan(done *store.Settlement, want *store.Want, batch *store.Batch) []step {
	steps := []step{{sql: m.sql.plan, args: []any{len(done.Wait) == 0, want.Flow > 0 && m.flow.wantsXID}}}
	steps = m.settling(steps, done, batch)
	if len(want.Keys)+want.Due+len(want.Held) > 0 {
		hand := m.inHand(done)
		if len(want.Keys) > 0 {
			steps = append(steps, m.byKey(want, hand, batch))
		}
		if want.Due > 0 {
			steps = append(steps, m.due(want, hand, batch))
		}
		if len(want.Held) > 0 {
			steps = append(steps, m.held(want, hand, batch))
		}
	}
	if want.Flow > 0 && len(want.Slots) > 0 {
		steps = append(steps, m.flowing(want, batch))
	}
	if len(steps) == 1 {
		return nil
	}
	return steps
}

// run sends the statements in one round trip, which is one transaction.
func (m *member) run(ctx context.Context, steps []step) error {
	if steps == nil {
		return nil
	}
	conn, err := m.s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	b := &pgx.Batch{}
	for _, s := range steps {
		b.Queue(s.sql, s.args...)
	}
	results := conn.SendBatch(ctx, b)
	for _, s := range steps {
		if err = s.take(results); err != nil {
			break
		}
	}
	// The commit is answered here.
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (s step) take(results pgx.BatchResults) error {
	if s.read == nil {
		tag, err := results.Exec()
		if err == nil && s.done != nil {
			s.done(tag)
		}
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	if err := s.read(rows); err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

// give notes what the relay now has in its hands.
func (m *member) give(batch *store.Batch) {
	m.giveWaiting(&batch.Keys, false)
	m.giveWaiting(&batch.Due, false)
	m.giveWaiting(&batch.Held, true)
	m.giveFlow(batch)
	clear(m.lowered)
}

// giveWaiting drops rows of slots that were lost in the same call, rows that an earlier part
// of the batch has already, and rows that came by their topic from behind its first ones.
func (m *member) giveWaiting(rows *[]*store.Row, byTopic bool) {
	kept := (*rows)[:0]
	for _, r := range *rows {
		if _, ours := m.waiting[r.Seq]; ours || m.slots[r.Slot] == nil {
			continue
		}
		if r.State == store.Held && byTopic {
			place := placeOf(r)
			if m.lowered[place] {
				continue
			}
			m.heldFloors[place] = max(r.Seq, m.heldFloors[place])
		}
		m.waiting[r.Seq] = r.Slot
		kept = append(kept, r)
	}
	*rows = kept
}

func placeOf(r *store.Row) heldPlace { return heldPlace{r.Slot, r.Destination, r.Topic} }

// lower makes the held rows from r on be read again. What the same call has read of them was
// read from the floor before, so it is not given out.
func (m *member) lower(r *store.Row) {
	place := placeOf(r)
	if floor, ok := m.heldFloors[place]; ok && floor >= r.Seq {
		m.heldFloors[place] = r.Seq - 1
		m.lowered[place] = true
	}
}

// Backlog implements [store.Member].
func (m *member) Backlog(ctx context.Context, slots []int16) ([]store.Backlog, error) {
	var all []store.Backlog
	err := m.run(ctx, []step{
		{sql: m.sql.plan, args: []any{true, false}},
		{sql: m.sql.backlog, args: []any{pgtype.FlatArray[int16](slots)}, read: func(rows pgx.Rows) (err error) {
			all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b store.Backlog, err error) {
				err = row.Scan(&b.Slot, &b.Destination, &b.Topic, &b.Key, &b.Retrying, &b.Behind, &b.Held, &b.Parked)
				return b, err
			})
			return err
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("pgstore: relay %s: backlog of %d slots: %w", m.name, len(slots), m.s.own(err))
	}
	// Somebody else may have changed any of it: what was read before is read again.
	for place := range m.heldFloors {
		if slices.Contains(slots, place.slot) {
			delete(m.heldFloors, place)
		}
	}
	return all, nil
}
