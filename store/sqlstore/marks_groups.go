package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// markGroup are the marks that one statement sets: one scope, one table, in the order of the index.
type markGroup struct {
	keys  []store.ID
	index []int  // of each key in the marks
	twins []twin // marks with a key that the group has already
	print bool   // some have a fingerprint
}

type twin struct{ mark, of int }

func (m *marking) setGroups(ctx context.Context, q querier) error {
	order := make([]int, len(m.marks))
	for i := range order {
		order[i] = i
	}
	// Stable, because of equal marks the first one given is the one that is set.
	slices.SortStableFunc(order, func(i, j int) int { return pgsql.CompareMarks(&m.marks[i], &m.marks[j]) })
	for start := 0; start < len(order); {
		first := &m.marks[order[start]]
		end := start + 1
		for end < len(order) && m.marks[order[end]].Scope == first.Scope && m.marks[order[end]].Key.Timed == first.Key.Timed {
			end++
		}
		g := m.group(order[start:end])
		if err := m.setGroup(ctx, q, g); err != nil {
			return err
		}
		if err := m.look(ctx, q, g); err != nil {
			return err
		}
		start = end
	}
	return nil
}

func (m *marking) group(order []int) *markGroup {
	g := &markGroup{keys: make([]store.ID, 0, len(order)), index: make([]int, 0, len(order))}
	for n, i := range order {
		m.status[i] = store.Seen
		g.print = g.print || !m.marks[i].Fingerprint.IsZero()
		if n > 0 && m.marks[order[n-1]].Key.ID == m.marks[i].Key.ID {
			g.twins = append(g.twins, twin{i, g.index[len(g.index)-1]})
			continue
		}
		g.keys = append(g.keys, m.marks[i].Key.ID)
		g.index = append(g.index, i)
	}
	return g
}

// setGroup sets the marks of a group and notes which were new: their keys come back.
func (m *marking) setGroup(ctx context.Context, q querier, g *markGroup) error {
	first := &m.marks[g.index[0]]
	kind := pgsql.Kind{Timed: first.Key.Timed, Print: g.print, Careful: true}
	args := []any{int64(first.Scope), idArray(g.keys), m.s.sql.lockTimeout, m.millis(g.index)}
	if !kind.Timed {
		args = append(args, m.times(g.index))
	}
	if kind.Print {
		args = append(args, m.prints(g.index))
	}
	at := make(map[store.ID]int, len(g.keys))
	for n, key := range g.keys {
		at[key] = g.index[n]
	}
	return each(ctx, q, func(rows *sql.Rows) error {
		var key string
		if err := rows.Scan(&key, &m.xact); err != nil {
			return err
		}
		id, err := store.ParseID(key)
		if err != nil {
			return err
		}
		i, sent := at[id]
		if !sent {
			return fmt.Errorf("the server returned a key that was not sent: %s", id)
		}
		m.status[i] = store.New
		return nil
	}, m.s.sql.markMany[kind], args...)
}

func (m *marking) millis(index []int) string {
	all := make([]int64, len(index))
	for n, i := range index {
		all[n] = pgsql.OwnMillis(&m.marks[i])
	}
	return intArray(all)
}

func (m *marking) times(index []int) string {
	all := make([]time.Time, len(index))
	for n, i := range index {
		all[n] = pgsql.Clamp(m.marks[i].Time)
	}
	return timeArray(all)
}

func (m *marking) prints(index []int) string {
	return array(len(index), func(b []byte, n int) []byte {
		print := m.marks[index[n]].Fingerprint
		if print.IsZero() {
			return append(b, "NULL"...)
		}
		return append(b, print.String()...)
	})
}

// look finds out why marks of a group were not set.
func (m *marking) look(ctx context.Context, q querier, g *markGroup) error {
	var unclear []store.ID
	for n, i := range g.index {
		if m.status[i] != store.New {
			unclear = append(unclear, g.keys[n])
		}
	}
	var found map[store.ID]store.ID
	if unclear != nil {
		var err error
		if found, err = m.lookUp(ctx, q, &m.marks[g.index[0]], unclear); err != nil {
			return err
		}
	}
	for _, i := range g.index {
		if m.status[i] != store.New {
			m.status[i] = m.judge(i, found)
		}
	}
	for _, t := range g.twins {
		switch {
		case m.status[t.of] != store.New:
			m.status[t.mark] = m.judge(t.mark, found)
		case pgsql.Differ(m.marks[t.of].Fingerprint, m.marks[t.mark].Fingerprint):
			m.status[t.mark] = store.Mismatched
		}
	}
	return nil
}

// lookUp returns the fingerprints of the marks that are there.
func (m *marking) lookUp(ctx context.Context, q querier, first *store.Mark, keys []store.ID) (map[store.ID]store.ID, error) {
	query := m.s.sql.lookPlain
	if first.Key.Timed {
		query = m.s.sql.lookTimed
	}
	found := make(map[store.ID]store.ID, len(keys))
	err := each(ctx, q, func(rows *sql.Rows) error {
		var key string
		var print sql.NullString
		err := rows.Scan(&key, &print)
		if err != nil {
			return err
		}
		id, err := store.ParseID(key)
		if err != nil {
			return err
		}
		found[id], err = readID(print)
		return err
	}, query, int64(first.Scope), idArray(keys))
	return found, err
}

// judge says of a mark that was not set what it is.
func (m *marking) judge(i int, found map[store.ID]store.ID) store.Status {
	print, there := found[m.marks[i].Key.ID]
	switch {
	case !there:
		return store.Late
	case pgsql.Differ(print, m.marks[i].Fingerprint):
		return store.Mismatched
	default:
		return store.Seen
	}
}
