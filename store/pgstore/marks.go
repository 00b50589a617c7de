package pgstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
)

// MarkTx implements [store.TxMarker]: it marks in a transaction that the caller owns. The
// limit on lock waits stays set for the rest of that transaction.
func (s *Store) MarkTx(ctx context.Context, tx pgx.Tx, marks []store.Mark) ([]store.Status, error) {
	if len(marks) == 0 {
		return nil, nil
	}
	b := &pgx.Batch{}
	m := s.queueMarks(b, marks)
	results := tx.SendBatch(ctx, b)
	err := m.read(results)
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("pgstore: mark: %w", s.own(err))
	}
	return m.status, nil
}

// marking is a set of marks on its way to the server and back.
type marking struct {
	marks  []store.Mark
	status []store.Status
	groups []markGroup
	// one holds the status of a single mark, so that the common case allocates no slice.
	one [1]store.Status
}

// markGroup are the marks that one statement sets: one scope, one table. Its order is the
// index's, in every process, so that two batches that overlap wait for each other
// rather than for ever.
type markGroup struct {
	keys  []pgtype.UUID
	index []int // of each key in the marks
}

// queueMarks queues the fewest statements that set all marks.
func (s *Store) queueMarks(b *pgx.Batch, marks []store.Mark) *marking {
	m := &marking{marks: marks}
	if len(marks) == 0 {
		return m
	}
	if len(marks) == 1 {
		m.status = m.one[:]
		s.queueOne(b, marks[0])
		return m
	}
	m.status = make([]store.Status, len(marks))
	order := make([]int, len(marks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return compareMarks(&marks[i], &marks[j], i, j) })
	for start := 0; start < len(order); {
		first := &marks[order[start]]
		end := start + 1
		for end < len(order) && marks[order[end]].Scope == first.Scope && marks[order[end]].Key.Timed == first.Key.Timed {
			end++
		}
		s.queueGroup(b, m, order[start:end])
		start = end
	}
	return m
}

func compareMarks(a, b *store.Mark, i, j int) int {
	switch {
	case a.Key.Timed != b.Key.Timed:
		if a.Key.Timed {
			return -1
		}
		return 1
	case a.Scope != b.Scope:
		return int(a.Scope) - int(b.Scope)
	}
	if c := bytes.Compare(a.Key.ID[:], b.Key.ID[:]); c != 0 {
		return c
	}
	// Of equal marks the first one given is the one that is set.
	return i - j
}

func (s *Store) queueOne(b *pgx.Batch, mark store.Mark) {
	key := pgtype.UUID{Bytes: mark.Key.ID, Valid: true}
	if mark.Key.Timed {
		b.Queue(s.sql.markTimed, int32(mark.Scope), key, s.sql.lockTimeout)
		return
	}
	b.Queue(s.sql.markPlain, int32(mark.Scope), key, s.sql.lockTimeout, timestamptz(mark.Time))
}

func (s *Store) queueGroup(b *pgx.Batch, m *marking, order []int) {
	g := markGroup{keys: make([]pgtype.UUID, 0, len(order)), index: make([]int, 0, len(order))}
	for n, i := range order {
		m.status[i] = store.Seen
		if n > 0 && m.marks[order[n-1]].Key.ID == m.marks[i].Key.ID {
			continue
		}
		g.keys = append(g.keys, pgtype.UUID{Bytes: m.marks[i].Key.ID, Valid: true})
		g.index = append(g.index, i)
	}
	m.groups = append(m.groups, g)
	first := m.marks[order[0]]
	if first.Key.Timed {
		b.Queue(s.sql.markTimedMany, int32(first.Scope), pgtype.FlatArray[pgtype.UUID](g.keys), s.sql.lockTimeout)
		return
	}
	times := make(pgtype.FlatArray[pgtype.Timestamptz], len(g.index))
	for n, i := range g.index {
		times[n] = timestamptz(m.marks[i].Time)
	}
	b.Queue(s.sql.markPlainMany, int32(first.Scope), pgtype.FlatArray[pgtype.UUID](g.keys), s.sql.lockTimeout, times)
}

// The server's range, nearly.
var (
	earliest = time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(294000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// timestamptz is a message's time, or NULL where it has none. A producer may have written
// nanoseconds where milliseconds belong: such a time is cut, because refused it would
// make a message that can be neither handled nor buried. No key depends on it.
func timestamptz(at time.Time) pgtype.Timestamptz {
	switch {
	case at.IsZero():
		return pgtype.Timestamptz{}
	case at.Before(earliest):
		at = earliest
	case at.After(latest):
		at = latest
	}
	return pgtype.Timestamptz{Time: at, Valid: true}
}

// read takes the results of the marking statements, which are the next ones.
func (m *marking) read(results pgx.BatchResults) error {
	if len(m.marks) == 1 {
		tag, err := results.Exec()
		if err != nil {
			return err
		}
		m.one[0] = store.Seen
		if tag.RowsAffected() == 1 {
			m.one[0] = store.New
		}
		return nil
	}
	for _, g := range m.groups {
		if err := m.readGroup(results, g); err != nil {
			return err
		}
	}
	return nil
}

// readGroup notes which keys came back: those were inserted. They come in the order in
// which they were sent, less the ones that were seen, so the search rarely goes further
// than the next key; the order is not promised, so it may.
func (m *marking) readGroup(results pgx.BatchResults, g markGroup) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	next := 0
	for rows.Next() {
		id, err := rawUUID(rows)
		if err != nil {
			return err
		}
		for next < len(g.keys) && g.keys[next].Bytes != id {
			next++
		}
		if next == len(g.keys) {
			if next = slices.IndexFunc(g.keys, func(k pgtype.UUID) bool { return k.Bytes == id }); next < 0 {
				return fmt.Errorf("the server returned a key that was not sent: %s", id)
			}
		}
		m.status[g.index[next]] = store.New
		next++
	}
	return rows.Err()
}

// rawUUID reads the first column without an allocation; text comes in the simple protocol.
func rawUUID(rows pgx.Rows) (store.ID, error) {
	raw := rows.RawValues()[0]
	if len(raw) == len(store.ID{}) {
		return store.ID(raw), nil
	}
	return store.ParseID(string(raw))
}
