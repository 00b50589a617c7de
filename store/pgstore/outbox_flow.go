package pgstore

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
)

const (
	// lookEvery is how often the flow is looked through from its very start, whatever is known
	// of transactions: the guarantee behind the hint. The next look waits for ten times as
	// long as the last one took, so that where much was deleted and nothing can be vacuumed,
	// because of a long snapshot elsewhere, looking stays below a tenth of the time.
	lookEvery = time.Second
	lookShare = 10
)

// flowReading is what a member knows of the flow as a whole.
type flowReading struct {
	horizon horizon
	// lookAt is when to look from the start again.
	lookAt time.Time
	// wantsXID asks for a transaction id at the next read, because the range to be looked
	// through has grown and only an id of our own moves it on.
	wantsXID bool

	// Of the read under way:
	started  time.Time
	looked   bool
	asked    int
	each     int
	snapshot string
	own      int64
	late     map[int16]int64 // slot → lowest unknown number below its floor
	rows     []*store.Row
	tids     []pgtype.TID // of the rows
	order    []int16
	floors   [store.Slots]int64
}

// failed makes the next read look from the start: behind a lost connection there may be
// another server than before.
func (f *flowReading) failed() { f.lookAt = time.Time{} }

// flowing is the step that reads the flow.
func (m *member) flowing(want *store.Want, batch *store.Batch) step {
	f := &m.flow
	n := len(want.Slots)
	slots, floors, hands := make(pgtype.FlatArray[int16], 0, n), make(pgtype.FlatArray[int64], 0, n), make(pgtype.FlatArray[int32], 0, n)
	for i := range n {
		slot := want.Slots[(m.turn+i)%n]
		if held := m.slots[slot]; held != nil {
			slots, floors, hands = append(slots, slot), append(floors, held.floor), append(hands, int32(len(held.hand)))
			m.flow.floors[slot] = held.floor
		}
	}
	f.started, f.asked, f.each = time.Now(), want.Flow, max((want.Flow+7)/8, 1)
	f.looked = !f.started.Before(f.lookAt)
	f.snapshot, f.own, f.order, f.late = "", 0, slots, nil
	f.rows, f.tids = make([]*store.Row, 0, want.Flow), f.tids[:0]
	var from pgtype.Int8 // null: look only where the horizon says so
	if f.looked {
		from = pgtype.Int8{Int64: 0, Valid: true}
	}
	xids, lows := f.horizon.arguments()
	m.reader.expect(want.Flow)
	return step{
		sql:  m.sql.readFlow,
		args: []any{slots, floors, hands, pgtype.FlatArray[string](xids), pgtype.FlatArray[int64](lows), int64(f.horizon.z), from, f.horizon.bound, f.each, f.asked},
		read: m.readFlowRows,
	}
}

func (m *member) readFlowRows(rows pgx.Rows) error {
	f := &m.flow
	looked := 0
	for rows.Next() {
		row, err := m.reader.flow(rows)
		if err != nil {
			return err
		}
		switch {
		case row == nil && m.reader.slot < 0:
			f.snapshot, f.own = m.reader.snapshot, m.reader.seq
		case row == nil:
			looked++
			m.noteLate(m.reader.slot, m.reader.seq)
		default:
			f.rows, f.tids = append(f.rows, row), append(f.tids, m.reader.tid)
		}
	}
	f.wantsXID = looked > f.asked/4
	return rows.Err()
}

// noteLate keeps the lowest number of a slot that is not in the relay's hands.
func (m *member) noteLate(slot int16, seq int64) {
	held := m.slots[slot]
	if held == nil {
		return
	}
	if _, ours := held.hand[seq]; ours {
		return
	}
	if m.flow.late == nil {
		m.flow.late = map[int16]int64{}
	}
	if low, ok := m.flow.late[slot]; !ok || seq < low {
		m.flow.late[slot] = seq
	}
}

// giveFlow hands out what was read, after its transaction has ended well. Of a slot in which
// somebody has committed late, or into which the same call has put rows back, nothing is
// handed out: it is read again from there.
func (m *member) giveFlow(batch *store.Batch) {
	f := &m.flow
	if f.snapshot == "" {
		return
	}
	var top int64
	var count [store.Slots]int
	batch.More = len(f.rows) == f.asked
	kept := f.rows[:0]
	for i, r := range f.rows {
		if count[r.Slot]++; count[r.Slot] == f.each {
			batch.More = true
		}
		held := m.slots[r.Slot]
		if held == nil {
			continue
		}
		if _, late := f.late[r.Slot]; late || held.floor < f.floors[r.Slot] {
			batch.More = true
			continue
		}
		held.floor = max(held.floor, r.Seq)
		if r.Seq <= held.top {
			if _, ours := held.hand[r.Seq]; ours {
				continue
			}
		}
		held.top = max(held.top, r.Seq)
		held.hand[r.Seq] = f.tids[i]
		top = max(top, r.Seq)
		kept = append(kept, r)
	}
	for slot, low := range f.late {
		if held := m.slots[slot]; held != nil {
			held.floor = min(held.floor, low-1)
			batch.More = true
		}
	}
	batch.Flow = kept
	m.rotate(&count)
	now := time.Now()
	if f.looked {
		f.lookAt = now.Add(max(lookEvery, lookShare*now.Sub(f.started)))
	}
	if same, err := f.horizon.advance(f.snapshot, uint64(f.own), top); !same || err != nil {
		f.failed()
	}
	f.snapshot, f.rows, f.late = "", nil, nil
}

// rotate lets the next read begin behind the last slot that gave rows.
func (m *member) rotate(count *[store.Slots]int) {
	n := len(m.flow.order)
	for i := n - 1; i >= 0; i-- {
		if count[m.flow.order[i]] > 0 {
			m.turn = (m.turn + i + 1) % n
			return
		}
	}
}
