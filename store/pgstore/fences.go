package pgstore

import (
	"context"
	"errors"
	"fmt"

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

// queueFences moves the position of each partition to the furthest of its marks.
func (m *marking) queueFences(b *pgx.Batch) {
	m.positions = pgsql.Positions(m.marks)
	for i := range m.positions {
		p := m.positions[i].Last
		b.Queue(m.s.sql.moveFence, int32(m.positions[i].Scope), []byte(p.Log), int32(p.Partition), p.Offset,
			pgtype.UUID{Bytes: p.Record, Valid: true}, p.Epoch, m.s.sql.lockTimeout)
	}
}

func readMoved(results pgx.BatchResults, p *pgsql.Position) error {
	err := results.QueryRow().Scan(&p.Previous)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	p.Moved = err == nil
	return err
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
	next, err := pgsql.Restart(expected, offset)
	if err == nil {
		var epoch int64
		err = f.scanRow(ctx, []any{&epoch}, pgsql.In(f.schema, pgsql.RestartFence),
			int32(scope), []byte(log), int32(partition), offset, next.Epoch, expected.Epoch, expected.Offset)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = pgsql.NotThere(expected)
	}
	if err != nil {
		return store.Applied{}, fmt.Errorf("pgstore: restart the position of %s/%d: %w", log, partition, f.own(err))
	}
	return next, nil
}
