package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// MarkTx implements [store.TxMarker]: it marks in a transaction that the caller owns. The
// limit on lock waits stays set for the rest of that transaction.
func (s *Store) MarkTx(ctx context.Context, tx pgx.Tx, marks []store.Mark) ([]store.Status, error) {
	return s.markTx(ctx, tx, mode{keys: true}, marks)
}

func (s *Store) markTx(ctx context.Context, tx pgx.Tx, by mode, marks []store.Mark) ([]store.Status, error) {
	if len(marks) == 0 {
		return nil, nil
	}
	if err := by.check(marks); err != nil {
		return nil, err
	}
	// Carefully, because an error would spoil the caller's transaction.
	m := &marking{s: s, mode: by, marks: marks, careful: true}
	b := &pgx.Batch{}
	m.queue(b)
	results := tx.SendBatch(ctx, b)
	err := m.read(results)
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = m.settle(ctx, tx)
	}
	if err != nil {
		return nil, fmt.Errorf("pgstore: mark: %w", s.own(err))
	}
	return m.status, nil
}

// mode is what a view of the store decides by.
type mode struct{ keys, positions bool }

func (by mode) check(marks []store.Mark) error {
	if !by.positions {
		return nil
	}
	if err := pgsql.CheckPlaces(marks); err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	return nil
}

// marking is a set of marks on its way to the server and back.
//
// On the common way, a key whose time has been removed makes the whole statement fail, which
// costs the others nothing. On the careful way, taken after that, each key is judged for itself.
type marking struct {
	s       *Store
	mode    mode
	marks   []store.Mark
	careful bool

	status    []store.Status
	groups    []pgsql.Group
	positions []pgsql.Position
	ordered   []store.Scope // the scopes whose parked keys are looked at
	parked    map[pgsql.ParkedKey]bool
	// one holds the status of a single mark, so that the common case allocates no slice.
	one [1]store.Status
}

// queue queues the fewest statements that set all marks.
func (m *marking) queue(b *pgx.Batch) {
	if len(m.marks) == 0 {
		return
	}
	if m.isOne() {
		m.status = m.one[:]
		m.s.queueOne(b, &m.marks[0])
		return
	}
	m.status = make([]store.Status, len(m.marks))
	if m.mode.positions {
		m.queueFences(b)
	}
	if m.mode.keys {
		m.queueGroups(b)
	}
	m.queueParked(b)
}

// isOne: the plain case of one mark with nothing but a key.
func (m *marking) isOne() bool {
	return len(m.marks) == 1 && !m.careful && !m.mode.positions && m.marks[0].Fingerprint.IsZero() && m.marks[0].Order.IsZero()
}

func (s *Store) queueOne(b *pgx.Batch, mark *store.Mark) {
	key := pgtype.UUID{Bytes: mark.Key.ID, Valid: true}
	if mark.Key.Timed {
		b.Queue(s.sql.markTimed, int32(mark.Scope), key, s.sql.lockTimeout, pgsql.OwnMillis(mark))
		return
	}
	b.Queue(s.sql.markPlain, int32(mark.Scope), key, s.sql.lockTimeout, pgsql.OwnMillis(mark), timestamptz(mark.Time))
}

// read takes the results of what was queued, which are the next ones.
func (m *marking) read(results pgx.BatchResults) error {
	if len(m.marks) == 0 {
		return nil
	}
	if m.isOne() {
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
	for i := range m.positions {
		if err := readMoved(results, &m.positions[i]); err != nil {
			return err
		}
	}
	for i := range m.groups {
		if err := m.readGroup(results, &m.groups[i]); err != nil {
			return err
		}
	}
	return m.readParked(results)
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// settle finds out, where that is not clear yet, why marks were not set.
func (m *marking) settle(ctx context.Context, q querier) error {
	for i := range m.groups {
		if err := m.look(ctx, q, &m.groups[i]); err != nil {
			return err
		}
	}
	for i := range m.positions {
		if err := m.settleFence(ctx, q, &m.positions[i]); err != nil {
			return err
		}
	}
	m.block()
	return nil
}

// isLate tells the error by which a marking statement says that one of its marks has a time that
// was removed: it finds no scope to write.
func (s *Store) isLate(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23502" && pg.ColumnName == "scope" && pg.SchemaName == s.config.schema
}

// timestamptz is a message's time as far as the server can keep it, or NULL where it has none.
func timestamptz(at time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: pgsql.Clamp(at), Valid: !at.IsZero()}
}
