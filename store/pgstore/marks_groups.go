package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// markGroup are the marks that one statement sets: one scope, one table. Its order is the
// index's, in every process, so that two batches that overlap wait for each other
// rather than for ever.
type markGroup struct {
	keys  []pgtype.UUID
	index []int  // of each key in the marks
	twins []twin // marks with a key that the group has already
	print bool   // some have a fingerprint
}

type twin struct{ mark, of int }

func (m *marking) queueGroups(b *pgx.Batch) {
	order := make([]int, len(m.marks))
	for i := range order {
		order[i] = i
	}
	// Of equal marks the first one given is the one that is set.
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(pgsql.CompareMarks(&m.marks[i], &m.marks[j]), i-j) })
	for start := 0; start < len(order); {
		first := &m.marks[order[start]]
		end := start + 1
		for end < len(order) && m.marks[order[end]].Scope == first.Scope && m.marks[order[end]].Key.Timed == first.Key.Timed {
			end++
		}
		m.queueGroup(b, order[start:end])
		start = end
	}
}

func (m *marking) queueGroup(b *pgx.Batch, order []int) {
	g := markGroup{keys: make([]pgtype.UUID, 0, len(order)), index: make([]int, 0, len(order))}
	for n, i := range order {
		m.status[i] = store.Seen
		g.print = g.print || !m.marks[i].Fingerprint.IsZero()
		if n > 0 && m.marks[order[n-1]].Key.ID == m.marks[i].Key.ID {
			g.twins = append(g.twins, twin{i, g.index[len(g.index)-1]})
			continue
		}
		g.keys = append(g.keys, pgtype.UUID{Bytes: m.marks[i].Key.ID, Valid: true})
		g.index = append(g.index, i)
	}
	first := &m.marks[order[0]]
	kind := pgsql.Kind{Timed: first.Key.Timed, Print: g.print, Careful: m.careful}
	args := []any{int32(first.Scope), pgtype.FlatArray[pgtype.UUID](g.keys), m.s.sql.lockTimeout}
	if m.careful {
		args = append(args, m.allMillis(g.index))
	} else {
		args = append(args, m.leastMillis(g.index))
	}
	if !kind.Timed {
		args = append(args, m.times(g.index))
	}
	if kind.Print {
		args = append(args, m.prints(g.index))
	}
	b.Queue(m.s.sql.markMany[kind], args...)
	m.groups = append(m.groups, g)
}

func (m *marking) leastMillis(index []int) int64 {
	least := int64(math.MaxInt64)
	for _, i := range index {
		least = min(least, pgsql.OwnMillis(&m.marks[i]))
	}
	return least
}

func (m *marking) allMillis(index []int) pgtype.FlatArray[int64] {
	all := make(pgtype.FlatArray[int64], len(index))
	for n, i := range index {
		all[n] = pgsql.OwnMillis(&m.marks[i])
	}
	return all
}

func (m *marking) times(index []int) pgtype.FlatArray[pgtype.Timestamptz] {
	all := make(pgtype.FlatArray[pgtype.Timestamptz], len(index))
	for n, i := range index {
		all[n] = timestamptz(m.marks[i].Time)
	}
	return all
}

func (m *marking) prints(index []int) pgtype.FlatArray[pgtype.UUID] {
	all := make(pgtype.FlatArray[pgtype.UUID], len(index))
	for n, i := range index {
		all[n] = pgtype.UUID{Bytes: m.marks[i].Fingerprint, Valid: !m.marks[i].Fingerprint.IsZero()}
	}
	return all
}

// readGroup notes which keys came back: those were inserted. They come in the order in
// which they were sent, less the ones that were seen, so the search rarely goes further
// than the next key; the order is not promised, so it may.
func (m *marking) readGroup(results pgx.BatchResults, g *markGroup) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	next := 0
	for rows.Next() {
		id, err := rawUUID(rows.RawValues()[0])
		if err != nil {
			return err
		}
		if next, err = g.find(id, next); err != nil {
			return err
		}
		m.status[g.index[next]] = store.New
		next++
	}
	return rows.Err()
}

// find searches from a key on, and from the first one where that fails.
func (g *markGroup) find(id store.ID, from int) (int, error) {
	for n := from; n < len(g.keys); n++ {
		if g.keys[n].Bytes == id {
			return n, nil
		}
	}
	if n := slices.IndexFunc(g.keys, func(k pgtype.UUID) bool { return k.Bytes == id }); n >= 0 {
		return n, nil
	}
	return 0, fmt.Errorf("the server returned a key that was not sent: %s", id)
}

// look reads those marks of a group that were not set, where it matters why.
func (m *marking) look(ctx context.Context, q querier, g *markGroup) error {
	var unclear []pgtype.UUID
	for n, i := range g.index {
		if m.isUnclear(i) || m.status[i] == store.Seen && g.hasPrintedTwin(m, i) {
			unclear = append(unclear, g.keys[n])
		}
	}
	if unclear != nil {
		found, err := m.lookUp(ctx, q, g, unclear)
		if err != nil {
			return err
		}
		for _, i := range g.index {
			if m.isUnclear(i) {
				m.status[i] = m.judge(i, found)
			}
		}
		for _, t := range g.twins {
			if m.status[t.of] != store.New {
				m.status[t.mark] = m.judge(t.mark, found)
			}
		}
	}
	for _, t := range g.twins {
		first, second := &m.marks[t.of], &m.marks[t.mark]
		if m.status[t.of] == store.New && pgsql.Differ(first.Fingerprint, second.Fingerprint) {
			m.status[t.mark] = store.Mismatched
		}
	}
	return nil
}

func (m *marking) isUnclear(i int) bool {
	return m.status[i] == store.Seen && (m.careful || !m.marks[i].Fingerprint.IsZero())
}

// lookUp returns the fingerprints of the marks that are there.
func (m *marking) lookUp(ctx context.Context, q querier, g *markGroup, keys []pgtype.UUID) (map[store.ID]store.ID, error) {
	first := &m.marks[g.index[0]]
	sql := m.s.sql.lookPlain
	if first.Key.Timed {
		sql = m.s.sql.lookTimed
	}
	rows, err := q.Query(ctx, sql, int32(first.Scope), pgtype.FlatArray[pgtype.UUID](keys))
	if err != nil {
		return nil, err
	}
	found := make(map[store.ID]store.ID, len(keys))
	var key, print pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{&key, &print}, func() error {
		found[key.Bytes] = print.Bytes // all zeros where there is none
		return nil
	})
	return found, err
}

// judge says of a mark that was not set what it is.
func (m *marking) judge(i int, found map[store.ID]store.ID) store.Status {
	print, there := found[m.marks[i].Key.ID]
	switch {
	case there && pgsql.Differ(print, m.marks[i].Fingerprint):
		return store.Mismatched
	case !there && m.careful:
		return store.Late
	default:
		return store.Seen
	}
}

// rawUUID reads a value without an allocation; text comes in the simple protocol.
func rawUUID(raw []byte) (store.ID, error) {
	if len(raw) == len(store.ID{}) {
		return store.ID(raw), nil
	}
	return store.ParseID(string(raw))
}

func (g *markGroup) hasPrintedTwin(m *marking, i int) bool {
	return slices.ContainsFunc(g.twins, func(t twin) bool { return t.of == i && !m.marks[t.mark].Fingerprint.IsZero() })
}
