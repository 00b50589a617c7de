package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

func (m *marking) queueGroups(b *pgx.Batch) {
	m.groups = pgsql.Groups(m.marks, m.status, m.careful)
	for i := range m.groups {
		m.queueGroup(b, &m.groups[i])
	}
}

func (m *marking) queueGroup(b *pgx.Batch, g *pgsql.Group) {
	args := append(make([]any, 0, 6), int32(g.Scope), m.keys(g.Index), m.s.sql.lockTimeout)
	if g.Kind.Careful {
		args = append(args, pgtype.FlatArray[int64](g.Millis()))
	} else {
		args = append(args, g.LeastMillis())
	}
	if !g.Kind.Timed {
		args = append(args, m.times(g.Index))
	}
	if g.Kind.Print {
		args = append(args, m.prints(g.Index))
	}
	b.Queue(m.s.sql.markMany[g.Kind], args...)
}

func (m *marking) keys(index []int) pgtype.FlatArray[pgtype.UUID] {
	all := make(pgtype.FlatArray[pgtype.UUID], len(index))
	for n, i := range index {
		all[n] = pgtype.UUID{Bytes: m.marks[i].Key.ID, Valid: true}
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

// readGroup notes which keys came back: those were inserted.
func (m *marking) readGroup(results pgx.BatchResults, g *pgsql.Group) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		key, err := rawUUID(rows.RawValues()[0])
		if err != nil {
			return err
		}
		if err := g.Set(key); err != nil {
			return err
		}
	}
	return rows.Err()
}

// rawUUID reads a value without an allocation; text comes in the simple protocol.
func rawUUID(raw []byte) (store.ID, error) {
	if len(raw) == len(store.ID{}) {
		return store.ID(raw), nil
	}
	return store.ParseID(string(raw))
}

// look finds out why marks of a group were not set, and reads those where that is in question.
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
	sql := m.s.sql.lookPlain
	if g.Kind.Timed {
		sql = m.s.sql.lookTimed
	}
	rows, err := q.Query(ctx, sql, int32(g.Scope), m.keys(index))
	if err != nil {
		return nil, err
	}
	found := make(map[store.ID]store.ID, len(index))
	var key, print pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{&key, &print}, func() error {
		found[key.Bytes] = print.Bytes // all zeros where there is none
		return nil
	})
	return found, err
}
