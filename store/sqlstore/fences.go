package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

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
	_ store.Marks[*sql.Tx]    = Fenced{}
	_ store.TxMarker[*sql.Tx] = Fenced{}
	_ store.Burier[*sql.Tx]   = Fenced{}
	_ store.Reviver[*sql.Tx]  = Fenced{}
	_ store.Fences            = Fenced{}
)

// Fenced returns the view of the store that keeps positions and no keys.
func (s *Store) Fenced() Fenced { return Fenced{s, mode{positions: true}} }

// FencedMarks returns the view of the store that keeps positions and keys: a message is new where
// both say so.
func (s *Store) FencedMarks() Fenced { return Fenced{s, mode{positions: true, keys: true}} }

// Keyless implements [store.Fences].
func (f Fenced) Keyless() bool { return !f.mode.keys }

// Begin implements [store.Marks]. Every mark must have a place, here and in Next.
func (f Fenced) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*sql.Tx], []store.Status, error) {
	u, statuses, err := f.begin(ctx, f.mode, marks)
	if err != nil {
		return nil, nil, err
	}
	return u, statuses, nil
}

// MarkTx implements [store.TxMarker] as [Store.MarkTx] does, and moves positions.
func (f Fenced) MarkTx(ctx context.Context, tx *sql.Tx, marks []store.Mark) ([]store.Status, error) {
	return f.markTx(ctx, tx, f.mode, marks)
}

// Revive implements [store.Reviver].
func (f Fenced) Revive(ctx context.Context, id int64) (store.Unit[*sql.Tx], store.DeadLetter, error) {
	return f.revive(ctx, f.mode, id)
}

// fenceGroup are the marks of one partition.
type fenceGroup struct {
	scope store.Scope
	last  *store.Place // the furthest
	index []int
	// What the server answered.
	moved    bool
	previous int64
}

// moveFences moves the position of each partition to the furthest of its marks.
func (m *marking) moveFences(ctx context.Context, q querier) error {
	for i := range m.marks {
		if m.marks[i].Place == nil {
			return errors.New("a mark has no place where positions are kept")
		}
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
		g := &m.fences[i]
		err := each(ctx, q, func(rows *sql.Rows) error {
			g.moved = true
			return rows.Scan(&g.previous, &m.xact)
		}, m.s.sql.moveFence, int64(g.scope), []byte(g.last.Log), int64(g.last.Partition), g.last.Offset,
			g.last.Record.String(), g.last.Epoch, m.s.sql.lockTimeout)
		if err != nil {
			return err
		}
	}
	return nil
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
	var record sql.NullString
	err := q.QueryRowContext(ctx, s.in(pgsql.ReadFence), int64(scope), []byte(log), int64(partition)).Scan(&at.Offset, &record, &at.Epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return at, nil
	}
	if err == nil {
		at.Record, err = readID(record)
	}
	return at, err
}

// Applied implements [store.Fences].
func (f Fenced) Applied(ctx context.Context, scope store.Scope, log string, partition int) (store.Applied, error) {
	conn, err := f.acquire(ctx)
	if err != nil {
		return store.Applied{}, fmt.Errorf("sqlstore: position of %s/%d: %w", log, partition, err)
	}
	defer func() { _ = conn.Close() }()
	at, err := f.readFence(ctx, conn, scope, log, partition)
	if err != nil {
		return at, fmt.Errorf("sqlstore: position of %s/%d: %w", log, partition, f.own(ctx, err))
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
		err := f.scanRow(ctx, []any{&epoch}, pgsql.RestartFence,
			int64(scope), []byte(log), int64(partition), offset, next.Epoch, expected.Epoch, expected.Offset)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("it is not at %d in epoch %d any more: %w", expected.Offset, expected.Epoch, store.ErrLost)
		}
		return err
	}()
	if err != nil {
		return store.Applied{}, fmt.Errorf("sqlstore: restart the position of %s/%d: %w", log, partition, f.own(ctx, err))
	}
	return next, nil
}
