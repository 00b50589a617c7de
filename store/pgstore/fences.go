package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// Fenced is the store for consumers that read a log in order: it keeps the position of the last
// message applied of each partition, one row for ever instead of one per message. See
// [store.Fences] for what that needs. A producer's retry has a position of its own, and only
// keys catch it: [Store.FencedMarks] keeps both.
type Fenced struct {
	*Store
	mode mode
}

var (
	_ store.Marks[pgx.Tx]   = Fenced{}
	_ store.Burier[pgx.Tx]  = Fenced{}
	_ store.Reviver[pgx.Tx] = Fenced{}
	_ store.Fences          = Fenced{}
)

// Fenced returns the view of the store that keeps positions and no keys.
func (s *Store) Fenced() Fenced { return Fenced{s, mode{positions: true}} }

// FencedMarks returns the view of the store that keeps positions and keys: a message is new where
// both say so.
func (s *Store) FencedMarks() Fenced { return Fenced{s, mode{positions: true, keys: true}} }

// Begin implements [store.Marks]. Every mark must have a place.
func (f Fenced) Begin(ctx context.Context, marks []store.Mark) (store.Unit[pgx.Tx], []store.Status, error) {
	if err := f.mode.check(marks); err != nil {
		return nil, nil, err
	}
	u, statuses, err := f.beginIn(ctx, f.mode, marks)
	if err != nil {
		return nil, nil, err
	}
	return u, statuses, nil
}

// MarkTx implements [store.TxMarker]. Every mark must have a place.
func (f Fenced) MarkTx(ctx context.Context, tx pgx.Tx, marks []store.Mark) ([]store.Status, error) {
	return f.markTx(ctx, tx, f.mode, marks)
}

// Revive implements [store.Reviver].
func (f Fenced) Revive(ctx context.Context, id int64) (store.Unit[pgx.Tx], store.DeadLetter, error) {
	u, letter, err := f.revive(ctx, id)
	if err != nil {
		return nil, store.DeadLetter{}, err
	}
	u.mode = f.mode
	return u, letter, nil
}

// Keyless implements [store.Fences].
func (f Fenced) Keyless() bool { return !f.mode.keys }

// fenceGroup are the marks of one partition.
type fenceGroup struct {
	scope store.Scope
	last  *store.Place // the furthest
	index []int
	// What the server answered.
	moved    bool
	previous int64
}

// queueFences moves the position of each partition to the furthest of its marks.
func (m *marking) queueFences(b *pgx.Batch) {
	for i := range m.marks {
		g := m.fenceOf(&m.marks[i])
		g.index = append(g.index, i)
		if p := m.marks[i].Place; p.Offset > g.last.Offset {
			g.last = p
		}
	}
	// In the same order in every process, so that two batches wait for each other rather than for ever.
	slices.SortFunc(m.fences, func(a, b fenceGroup) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.last.Log, b.last.Log), cmp.Compare(a.last.Partition, b.last.Partition))
	})
	for i := range m.fences {
		p := m.fences[i].last
		b.Queue(m.s.sql.moveFence, int32(m.fences[i].scope), []byte(p.Log), int32(p.Partition), p.Offset,
			pgtype.UUID{Bytes: p.Record, Valid: true}, p.Epoch, m.s.sql.lockTimeout)
	}
}

func (m *marking) fenceOf(mark *store.Mark) *fenceGroup {
	for i := range m.fences {
		g := &m.fences[i]
		if g.scope == mark.Scope && g.last.Partition == mark.Place.Partition && g.last.Epoch == mark.Place.Epoch && g.last.Log == mark.Place.Log {
			return g
		}
	}
	m.fences = append(m.fences, fenceGroup{scope: mark.Scope, last: mark.Place})
	return &m.fences[len(m.fences)-1]
}

func (g *fenceGroup) read(results pgx.BatchResults) error {
	err := results.QueryRow().Scan(&g.previous)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	g.moved = err == nil
	return err
}

// settleFence says of each mark on which side of the position it lies. Where keys are kept too, a
// mark that the position has passed is seen whatever its key says.
func (m *marking) settleFence(ctx context.Context, q querier, g *fenceGroup) error {
	if !g.moved {
		// Nothing was to be moved, or somebody has begun a new epoch.
		at, err := m.s.readFence(ctx, q, g.scope, g.last.Log, g.last.Partition)
		if err != nil {
			return err
		}
		if at.Epoch != g.last.Epoch {
			return fmt.Errorf("position of %s/%d: epoch %d is over, it is %d now: %w", g.last.Log, g.last.Partition, g.last.Epoch, at.Epoch, store.ErrLost)
		}
		g.previous = at.Offset
	}
	for _, i := range g.index {
		switch {
		case m.marks[i].Place.Offset <= g.previous || m.isSecondAt(g, i):
			m.status[i] = store.Seen
		case !m.mode.keys:
			m.status[i] = store.New
		}
	}
	return nil
}

// isSecondAt: a mark before this one has the same place.
func (m *marking) isSecondAt(g *fenceGroup, i int) bool {
	for n := len(g.index) - 1; n >= 0; n-- {
		if j := g.index[n]; j < i && m.marks[j].Place.Offset == m.marks[i].Place.Offset {
			return true
		}
	}
	return false
}

func (s *Store) readFence(ctx context.Context, q querier, scope store.Scope, log string, partition int) (store.Applied, error) {
	at := store.Applied{Offset: -1}
	rows, err := q.Query(ctx, pgsql.In(s.schema, pgsql.ReadFence), int32(scope), []byte(log), int32(partition))
	if err != nil {
		return at, err
	}
	var record pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{&at.Offset, &record, &at.Epoch}, func() error { return nil })
	at.Record = record.Bytes
	return at, err
}

// Applied implements [store.Fences].
func (f Fenced) Applied(ctx context.Context, scope store.Scope, log string, partition int) (store.Applied, error) {
	conn, err := f.acquire(ctx)
	if err != nil {
		return store.Applied{}, fmt.Errorf("pgstore: position of %s/%d: %w", log, partition, err)
	}
	defer conn.Release()
	at, err := f.readFence(ctx, conn, scope, log, partition)
	if err != nil {
		return at, fmt.Errorf("pgstore: position of %s/%d: %w", log, partition, f.own(err))
	}
	return at, nil
}

// RestartFence implements [store.Fences].
func (f Fenced) RestartFence(ctx context.Context, scope store.Scope, log string, partition int, expected store.Applied, offset int64) (store.Applied, error) {
	next := store.Applied{Offset: offset, Epoch: expected.Epoch + 1}
	err := func() error {
		if offset < -1 {
			return fmt.Errorf("offset %d: -1 is the least, and means that nothing is applied", offset)
		}
		var epoch int64
		err := f.scanRow(ctx, []any{&epoch}, pgsql.In(f.schema, pgsql.RestartFence),
			int32(scope), []byte(log), int32(partition), offset, next.Epoch, expected.Epoch, expected.Offset)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("it is not at %d in epoch %d any more: %w", expected.Offset, expected.Epoch, store.ErrLost)
		}
		return err
	}()
	if err != nil {
		return store.Applied{}, fmt.Errorf("pgstore: restart the position of %s/%d: %w", log, partition, f.own(err))
	}
	return next, nil
}
