package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// cluster is a server that may be replaced by another one, which need not have all of its commits. A
// transaction and the one that follows it may be on different ones, as behind a pooler.
type cluster struct {
	memstore.Fenced
	view func(*memstore.Store) memstore.Fenced

	commits   int
	commit    func(n int) error // may refuse one, which is rolled back then
	unknown   bool              // what becomes of one that is refused is not known
	committed func(n int)
}

var fencedViews = map[string]func(*memstore.Store) memstore.Fenced{"positions": (*memstore.Store).Fenced, "positions and keys": (*memstore.Store).FencedMarks}

func newCluster(view func(*memstore.Store) memstore.Fenced) *cluster {
	return &cluster{Fenced: view(memstore.New()), view: view}
}

// promote replaces the server by one that has the effects of the messages alone.
func (c *cluster) promote(t *testing.T, has ...dedup.Message) {
	t.Helper()
	replica := c.view(memstore.New())
	for _, m := range has {
		wantResult(t, guardOn(t, replica, add).Process(t.Context(), m), dedup.Applied, 0)
	}
	c.Fenced = replica
}

// ends returns how often a message has taken effect or been buried.
func (c *cluster) ends(t *testing.T, m dedup.Message) int {
	t.Helper()
	dead, err := c.ListDead(t.Context(), store.LetterFilter{}, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	n := int(c.Get(idOf(m)))
	for _, d := range dead {
		if d.Partition == m.Position.Partition && d.Offset == m.Position.Offset {
			n++
		}
	}
	return n
}

func (c *cluster) Fault(err error) store.Fault {
	var f *faulty
	if errors.As(err, &f) {
		return f.fault
	}
	return c.Fenced.Fault(err)
}

func (c *cluster) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*memstore.Tx], []store.Status, error) {
	u, statuses, err := c.Fenced.Begin(ctx, marks)
	if err != nil {
		return nil, nil, err
	}
	return &clusterUnit{u, c}, statuses, nil
}

type clusterUnit struct {
	store.Unit[*memstore.Tx]
	c *cluster
}

func (u *clusterUnit) Commit(ctx context.Context) (store.End, error) {
	c := u.c
	c.commits++
	if c.commit != nil {
		if err := c.commit(c.commits); err != nil {
			end := store.RolledBack
			if c.unknown {
				end = store.Unknown
			}
			return end, errors.Join(err, u.Rollback(ctx))
		}
	}
	end, err := u.Unit.Commit(ctx)
	if c.committed != nil {
		c.committed(c.commits)
	}
	return end, err
}

func (u *clusterUnit) Next(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
	end, err := u.Commit(ctx)
	if err != nil {
		return end, nil, err
	}
	next, statuses, err := u.c.Fenced.Begin(ctx, marks)
	if err != nil {
		return end, nil, err
	}
	u.Unit = next
	return end, statuses, nil
}

// in is the ith message of a log in so many partitions.
func in(partitions, i int) dedup.Message {
	m := message(fmt.Sprint("m", i))
	m.Position = at(int64(i / partitions))
	m.Position.Partition = i % partitions
	return m
}

// follow handles the messages as a consumer does: from where the store says, and where it is told that
// the position is lost, from where the store says then. It returns how often that was.
func follow(t *testing.T, g *dedup.TxGuard[*memstore.Tx], partitions int, all []dedup.Message, process func(context.Context, []dedup.Message) []dedup.Result) (lost int) {
	t.Helper()
	next := make([]int64, partitions)
	ask := func(p int) {
		applied, err := g.Applied(t.Context(), "orders", p)
		if err != nil {
			t.Fatal(err)
		}
		next[p] = applied.Offset + 1
	}
	for p := range partitions {
		ask(p)
	}
	for range 10 * len(all) {
		ms := slices.DeleteFunc(slices.Clone(all), func(m dedup.Message) bool { return m.Position.Offset < next[m.Position.Partition] })
		if len(ms) == 0 {
			return lost
		}
		for i, r := range process(t.Context(), ms) {
			p := ms[i].Position
			switch {
			case r.Outcome.Settled():
				next[p.Partition] = p.Offset + 1
			case errors.Is(r.Err, store.ErrLost):
				lost++
				ask(p.Partition)
			}
		}
	}
	t.Fatal("it comes to no end")
	return 0
}
