package pgstore

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
)

// inHand are the numbers of waiting rows that are not to be read again. Rows that the same
// call settles are not among them: the statements that read come after those that settle,
// and a key read without its first rows would be out of order.
func (m *member) inHand(done *store.Settlement) pgtype.FlatArray[int64] {
	if len(m.waiting) == 0 {
		return pgtype.FlatArray[int64]{}
	}
	ends := make(map[int64]bool, len(done.Sent)+len(done.Wait)+len(done.Back))
	for _, r := range done.Sent {
		ends[r.Seq] = true
	}
	for _, r := range done.Back {
		ends[r.Seq] = true
	}
	for i := range done.Wait {
		ends[done.Wait[i].Row.Seq] = !done.Wait[i].Keep
	}
	seqs := make(pgtype.FlatArray[int64], 0, len(m.waiting))
	for seq := range m.waiting {
		if !ends[seq] {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

func (m *member) collect(into *[]*store.Row) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			row, err := m.reader.waiting(rows)
			if err != nil {
				return err
			}
			*into = append(*into, row)
		}
		return rows.Err()
	}
}

// due is the step that reads retries whose time has come.
func (m *member) due(want *store.Want, hand pgtype.FlatArray[int64], batch *store.Batch) step {
	slots := pgtype.FlatArray[int16](want.Slots)
	return step{sql: m.sql.readDue, args: []any{slots, hand, want.Due}, read: m.collect(&batch.Due)}
}

// held is the step that reads topics that can be reached again, or are to be tried.
func (m *member) held(want *store.Want, hand pgtype.FlatArray[int64], batch *store.Batch) step {
	var slots pgtype.FlatArray[int16]
	var destinations, topics pgtype.FlatArray[string]
	var floors pgtype.FlatArray[int64]
	var most pgtype.FlatArray[int32]
	for _, w := range want.Held {
		for _, slot := range w.Slots {
			slots = append(slots, slot)
			destinations, topics = append(destinations, w.Destination), append(topics, w.Topic)
			floors = append(floors, m.heldFloors[heldPlace{slot, w.Destination, w.Topic}])
			most = append(most, int32(w.Each))
		}
	}
	return step{sql: m.sql.readHeld, args: []any{slots, destinations, topics, floors, most, hand}, read: m.collect(&batch.Held)}
}

// byKey is the step that reads what waits under certain keys.
func (m *member) byKey(want *store.Want, hand pgtype.FlatArray[int64], batch *store.Batch) step {
	var slots pgtype.FlatArray[int16]
	var destinations, topics pgtype.FlatArray[string]
	var keys pgtype.FlatArray[[]byte]
	var most pgtype.FlatArray[int32]
	for _, w := range want.Keys {
		slots, keys, most = append(slots, w.Slot), append(keys, w.Key), append(most, int32(w.Most))
		destinations, topics = append(destinations, w.Destination), append(topics, w.Topic)
	}
	return step{sql: m.sql.readByKey, args: []any{slots, destinations, topics, keys, most, hand}, read: m.collect(&batch.Keys)}
}
