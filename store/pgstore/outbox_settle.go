package pgstore

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// refs are rows in the form in which statements take them.
type refs struct {
	slots pgtype.FlatArray[int16]
	seqs  pgtype.FlatArray[int64]
	ids   pgtype.FlatArray[pgtype.UUID]
}

func (r *refs) add(row *store.Row) {
	r.slots, r.seqs = append(r.slots, row.Slot), append(r.seqs, row.Seq)
	r.ids = append(r.ids, pgtype.UUID{Bytes: row.ID, Valid: true})
}

// waits are rows with how they wait.
type waits struct {
	refs
	states           pgtype.FlatArray[string]
	attempts, starts pgtype.FlatArray[int32]
	afters           pgtype.FlatArray[int64]
	reasons          pgtype.FlatArray[string]
}

func (w *waits) add(one *store.Wait) {
	w.refs.add(one.Row)
	w.states = append(w.states, one.State.String())
	w.attempts, w.starts = append(w.attempts, int32(one.Attempts)), append(w.starts, int32(one.Starts))
	w.afters = append(w.afters, max(one.After.Microseconds(), 0))
	w.reasons = append(w.reasons, cleanReason(one.Reason))
}

func (w *waits) args(slots pgtype.FlatArray[int16], tokens pgtype.FlatArray[int64]) []any {
	return []any{w.slots, w.seqs, slots, tokens, w.ids, w.states, w.attempts, w.starts, w.afters, w.reasons}
}

// settling adds the fence and the statements that write, where there is anything to write.
// Rows of slots that are not held any more are left out: they are somebody else's.
func (m *member) settling(steps []step, done *store.Settlement, batch *store.Batch) []step {
	if len(done.Sent)+len(done.Wait) == 0 {
		return steps
	}
	var touched [store.Slots]bool
	ours := func(r *store.Row) bool {
		held := m.slots[r.Slot] != nil
		touched[r.Slot] = touched[r.Slot] || held
		return held
	}
	var sentFlow, sentWaiting refs
	sentFlow.slots = make(pgtype.FlatArray[int16], 0, len(done.Sent))
	sentFlow.seqs = make(pgtype.FlatArray[int64], 0, len(done.Sent))
	tids := make(pgtype.FlatArray[pgtype.TID], 0, len(done.Sent))
	for _, r := range done.Sent {
		switch {
		case !ours(r):
		case r.State == store.Flowing:
			sentFlow.add(r)
			tids = append(tids, m.slots[r.Slot].hand[r.Seq])
		default:
			sentWaiting.add(r)
		}
	}
	var moves, changes waits
	for i := range done.Wait {
		w := &done.Wait[i]
		switch {
		case !ours(w.Row):
		case w.Row.State == store.Flowing:
			moves.add(w)
		default:
			changes.add(w)
		}
	}
	var slots pgtype.FlatArray[int16]
	var tokens pgtype.FlatArray[int64]
	for slot, is := range touched {
		if is {
			slots, tokens = append(slots, int16(slot)), append(tokens, m.slots[slot].token)
		}
	}
	if len(slots) == 0 {
		return steps
	}
	fence := m.sql.fence
	if len(moves.slots)+len(changes.slots) > 0 {
		fence = m.sql.lockingFence
	}
	steps = append(steps, step{sql: fence, args: []any{slots, tokens}, read: lostOf(slots, batch)})
	if len(sentFlow.slots) > 0 {
		args := []any{sentFlow.slots, sentFlow.seqs, slots, tokens, sentFlow.ids}
		steps = append(steps, step{sql: m.sql.deleteFlow, args: []any{tids, sentFlow.ids, slots, tokens}, done: func(tag pgconn.CommandTag) {
			// Fewer are gone where a settlement is repeated or a slot is lost, too.
			if tag.RowsAffected() < int64(len(sentFlow.slots)) {
				m.missed = []step{{sql: m.sql.plan, args: []any{true, false}}, {sql: m.sql.deleteFlowByKey, args: args}}
			}
		}})
	}
	if len(sentWaiting.slots) > 0 {
		steps = append(steps, step{sql: m.sql.deleteWaiting, args: []any{sentWaiting.slots, sentWaiting.seqs, slots, tokens, sentWaiting.ids}})
	}
	if len(moves.slots) > 0 {
		steps = append(steps, step{sql: m.sql.moveFlow, args: moves.args(slots, tokens)})
	}
	if len(changes.slots) > 0 {
		steps = append(steps, step{sql: m.sql.changeWaiting, args: changes.args(slots, tokens)})
	}
	return steps
}

// lostOf finds the slots that the fence did not return. Both are in order.
func lostOf(asked pgtype.FlatArray[int16], batch *store.Batch) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		next := 0
		for rows.Next() {
			var slot int16
			if err := rows.Scan(&slot); err != nil {
				return err
			}
			for next < len(asked) && asked[next] != slot {
				batch.Lost = append(batch.Lost, asked[next])
				next++
			}
			next++
		}
		if rows.Err() == nil && next < len(asked) {
			batch.Lost = append(batch.Lost, asked[next:]...)
		}
		return rows.Err()
	}
}

// settled takes rows out of the relay's hands after the server has agreed.
func (m *member) settled(done *store.Settlement, lost []int16) {
	for _, slot := range lost {
		m.forget(slot)
	}
	for _, r := range done.Sent {
		m.drop(r)
	}
	for _, r := range done.Back {
		m.drop(r)
		switch held := m.slots[r.Slot]; {
		case held == nil:
		case r.State == store.Flowing:
			held.floor = min(held.floor, r.Seq-1)
		case r.State == store.Held:
			m.lower(r)
		}
	}
	for i := range done.Wait {
		w := &done.Wait[i]
		m.drop(w.Row)
		if m.slots[w.Row.Slot] == nil {
			continue
		}
		if w.State == store.Held && !w.Keep {
			m.lower(w.Row)
		}
		if w.Keep {
			w.Row.State, w.Row.Attempts, w.Row.Starts = w.State, w.Attempts, w.Starts
			m.waiting[w.Row.Seq] = w.Row.Slot
		}
	}
}

func (m *member) drop(r *store.Row) {
	if r.State != store.Flowing {
		delete(m.waiting, r.Seq)
		return
	}
	if held := m.slots[r.Slot]; held != nil {
		delete(held.hand, r.Seq)
	}
}

// cleanReason keeps a reason within what a person reads and what a text column takes.
func cleanReason(s string) string {
	const most = 2000
	if len(s) > most {
		s = s[:most]
	}
	return pgsql.CleanText(s)
}
