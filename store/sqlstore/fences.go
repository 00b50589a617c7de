package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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

// moveFences moves the position of each partition to the furthest of its marks.
func (m *marking) moveFences(ctx context.Context, q querier) error {
	if err := pgsql.CheckPlaces(m.marks); err != nil {
		return err
	}
	m.positions = pgsql.Positions(m.marks)
	for i := range m.positions {
		p := &m.positions[i]
		err := each(ctx, q, func(rows *sql.Rows) error {
			p.Moved = true
			return rows.Scan(&p.Previous, &m.xact)
		}, m.s.sql.moveFence, int64(p.Scope), []byte(p.Last.Log), int64(p.Last.Partition), p.Last.Offset,
			p.Last.Record.String(), p.Last.Epoch, m.s.sql.lockTimeout)
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *marking) settleFence(ctx context.Context, q querier, p *pgsql.Position) error {
	if p.Moved {
		if err := p.Reaches(); err != nil {
			return err
		}
	} else {
		at, err := m.s.readFence(ctx, q, p.Scope, p.Last.Log, p.Last.Partition)
		if err != nil {
			return err
		}
		if err := p.Still(at); err != nil {
			return err
		}
	}
	p.Judge(m.marks, m.status, !m.mode.keys)
	return nil
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
	next, err := pgsql.Restart(expected, offset)
	if err == nil {
		var epoch int64
		err = f.scanRow(ctx, []any{&epoch}, pgsql.RestartFence,
			int64(scope), []byte(log), int64(partition), offset, next.Epoch, expected.Epoch, expected.Offset)
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = pgsql.NotThere(expected)
	}
	if err != nil {
		return store.Applied{}, fmt.Errorf("sqlstore: restart the position of %s/%d: %w", log, partition, f.own(ctx, err))
	}
	return next, nil
}
