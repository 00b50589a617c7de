package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// setGroups sets the marks, always carefully; [newStatements] says why.
func (m *marking) setGroups(ctx context.Context, q querier) error {
	groups := pgsql.Groups(m.marks, m.status, true)
	for i := range groups {
		g := &groups[i]
		if err := m.setGroup(ctx, q, g); err != nil {
			return err
		}
		if err := m.look(ctx, q, g); err != nil {
			return err
		}
	}
	return nil
}

// setGroup sets the marks of a group and notes which were new: their keys come back.
func (m *marking) setGroup(ctx context.Context, q querier, g *pgsql.Group) error {
	args := []any{int64(g.Scope), m.keys(g.Index), m.s.sql.lockTimeout, intArray(g.Millis())}
	if !g.Kind.Timed {
		args = append(args, m.times(g.Index))
	}
	if g.Kind.Print {
		args = append(args, m.prints(g.Index))
	}
	return each(ctx, q, func(rows *sql.Rows) error {
		var text string
		if err := rows.Scan(&text, &m.xact); err != nil {
			return err
		}
		key, err := store.ParseID(text)
		if err != nil {
			return err
		}
		return g.Set(key)
	}, m.s.sql.markMany[g.Kind], args...)
}

func (m *marking) keys(index []int) string {
	return array(len(index), func(b []byte, n int) []byte { return append(b, m.marks[index[n]].Key.ID.String()...) })
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

// look finds out why marks of a group were not set, and reads those.
func (m *marking) look(ctx context.Context, q querier, g *pgsql.Group) error {
	var found map[store.ID]store.ID
	if unclear := g.Unclear(); unclear != nil {
		var err error
		if found, err = m.lookUp(ctx, q, g, unclear); err != nil {
			return err
		}
	}
	g.Judge(found)
	return nil
}

// lookUp returns the fingerprints of the marks that are there.
func (m *marking) lookUp(ctx context.Context, q querier, g *pgsql.Group, index []int) (map[store.ID]store.ID, error) {
	query := m.s.sql.lookPlain
	if g.Kind.Timed {
		query = m.s.sql.lookTimed
	}
	found := make(map[store.ID]store.ID, len(index))
	err := each(ctx, q, func(rows *sql.Rows) error {
		var text string
		var print sql.NullString
		if err := rows.Scan(&text, &print); err != nil {
			return err
		}
		key, err := store.ParseID(text)
		if err != nil {
			return err
		}
		found[key], err = readID(print)
		return err
	}, query, int64(g.Scope), m.keys(index))
	return found, err
}
