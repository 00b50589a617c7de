package crash

import (
	"context"
	"sync/atomic"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// point is a place in the work where a process dies.
type point string

const (
	never     point = "never"
	fetched   point = "message fetched"
	begun     point = "transaction begun" // the parent blocks the mark, and kills
	marked    point = "marked"
	handled   point = "handler ran"
	appended  point = "outbox row written"
	lostAway  point = "COMMIT sent, not received"     // the parent's proxy
	lostBack  point = "COMMIT received, not answered" // the parent's proxy
	committed point = "committed, not acknowledged"
	published point = "published, not marked sent"
)

// death kills its own process, without any chance to tidy up, when it has been at its
// point often enough.
type death struct {
	point point
	left  atomic.Int64
}

func newDeath(o orders) *death {
	d := &death{point: o.Point}
	d.left.Store(int64(o.After))
	return d
}

func (d *death) at(p point) {
	if p == d.point && d.left.Add(-1) <= 0 {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

// mortalMarks are real marks between which a process can die.
type mortalMarks struct {
	store.Marks[pgx.Tx]
	store.Burier[pgx.Tx]
	*death
}

func (m mortalMarks) Begin(ctx context.Context, marks []store.Mark) (store.Unit[pgx.Tx], []store.Status, error) {
	m.at(fetched)
	u, statuses, err := m.Marks.Begin(ctx, marks)
	if err != nil {
		return nil, nil, err
	}
	m.atNew(statuses)
	return mortalUnit{u, m}, statuses, nil
}

func (m mortalMarks) atNew(statuses []store.Status) {
	for _, s := range statuses {
		if s == store.New {
			m.at(marked)
		}
	}
}

type mortalUnit struct {
	store.Unit[pgx.Tx]
	marks mortalMarks
}

func (u mortalUnit) Commit(ctx context.Context) (store.End, error) {
	end, err := u.Unit.Commit(ctx)
	if end == store.Committed {
		u.marks.at(committed)
	}
	return end, err
}

func (u mortalUnit) Next(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
	end, statuses, err := u.Unit.Next(ctx, marks)
	if end == store.Committed {
		u.marks.at(committed)
	}
	u.marks.atNew(statuses)
	return end, statuses, err
}

// mortalPublisher is a real publisher after which a process can die.
type mortalPublisher struct {
	outbox.Publisher
	*death
}

func (p mortalPublisher) Publish(ctx context.Context, events []store.Event) []error {
	errs := p.Publisher.Publish(ctx, events)
	for range events {
		p.at(published)
	}
	return errs
}
