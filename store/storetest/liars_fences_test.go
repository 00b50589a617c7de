package storetest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// fencesLiars lie about positions.
func fencesLiars() []liar {
	return []liar{
		{"everything is after the position", []string{"position decides", "a batch of positions", "rival on a partition", "three owners of a partition"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.takeFor(store.Seen, store.New)
		})},
		{"one position for logs that differ in case", []string{"positions are separate"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendPlaces(func(_ *store.Mark, p *store.Place) { p.Log = strings.ToLower(p.Log) })
		})},
		{"one position for all consumers", []string{"positions are separate"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendPlaces(func(m *store.Mark, _ *store.Place) { m.Scope = 1 })
		})},
		{"a batch is judged by its last place", []string{"a batch of positions"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendStatuses(func(_ []store.Mark, statuses []store.Status) {
				for i := range statuses {
					statuses[i] = statuses[len(statuses)-1]
				}
			})
		})},
		{"the position is committed at once", []string{"a rollback restores the position", "rival on a partition", "three owners of a partition"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := begin(ctx, marks)
				if err != nil {
					return nil, nil, err
				}
				if _, err := u.Commit(ctx); err != nil {
					return nil, nil, err
				}
				u, _, err = begin(ctx, nil)
				return u, statuses, err
			}
		})},
		{"next moves no position", []string{"next moves on"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				next := u.next
				u.next = func(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
					end, _, err := next(ctx, nil)
					return end, slices.Repeat([]store.Status{store.New}, len(marks)), err
				}
			})
		})},
		{"positions of 32 bits", []string{"positions beyond 32 bits"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendPlaces(func(_ *store.Mark, p *store.Place) { p.Offset = min(p.Offset, 1<<31-1) })
		})},
		{"forgets the record", []string{"position decides"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendPlaces(func(_ *store.Mark, p *store.Place) { p.Record = store.ID{} })
		})},
		{"a restart keeps the record", []string{"a restart"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			restart := b.restart
			b.restart = func(ctx context.Context, scope store.Scope, log string, partition int, expected store.Applied, offset int64) (store.Applied, error) {
				at, err := restart(ctx, scope, log, partition, expected, offset)
				at.Record = expected.Record
				return at, err
			}
		})},
		{"restarts whatever is there", []string{"a restart from elsewhere", "one of two restarts", "a restart under way"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			restart := b.restart
			b.restart = func(ctx context.Context, scope store.Scope, log string, partition int, _ store.Applied, offset int64) (store.Applied, error) {
				for {
					at, err := b.applied(ctx, scope, log, partition)
					if err == nil {
						at, err = restart(ctx, scope, log, partition, at, offset)
					}
					if b.s.Fault(err) != store.FaultBusy {
						return at, err
					}
				}
			}
		})},
		{"epochs do not matter", []string{"a place of another epoch"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendPlaces(func(m *store.Mark, p *store.Place) {
				at, _ := b.applied(context.Background(), m.Scope, p.Log, p.Partition)
				p.Epoch = at.Epoch
			})
		})},
		{"what is known does not matter", []string{"a position that has gone back"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendPlaces(func(_ *store.Mark, p *store.Place) { p.Known = 0 })
		})},
		{"only what is new must not be behind", []string{"a position that has gone back"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendPlaces(func(m *store.Mark, p *store.Place) {
				if at, _ := b.applied(context.Background(), m.Scope, p.Log, p.Partition); p.Offset <= at.Offset {
					p.Known = 0
				}
			})
		})},
		{"another epoch is the handler's fault", []string{"a place of another epoch", "a position that has gone back"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.fault = func(error) store.Fault { return store.FaultHandler }
		})},
		{"one owner at a time", []string{"rival on another partition"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := begin(ctx, marks)
				if err != nil {
					return nil, nil, err
				}
				return u, statuses, u.Tx().Put(ctx, "the one lock", 0)
			}
		})},
		{"positions in the order given", []string{"partitions in opposite order"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := begin(ctx, nil)
				for _, m := range marks {
					time.Sleep(time.Microsecond)
					st, err := b.markTx(ctx, u.Tx(), []store.Mark{m})
					if err != nil {
						_ = u.Rollback(ctx)
						return nil, nil, err
					}
					statuses = append(statuses, st...)
				}
				return u, statuses, err
			}
		})},
		{"waits for an owner without a limit", []string{"rival on a partition past the lock limit"}, sitFences(false, func(p *marksPlace, _ *bentFences) {
			*p, _ = honestFences(memstore.New(memstore.WithLockWait(time.Hour)), false)
		})},
		{"keeps keys that nobody asked for", []string{"keys do not matter"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.look(b.s.FencedMarks())
		})},
		{"keeps no keys", []string{"position or key", "position and fingerprint"}, sitFences(true, func(_ *marksPlace, b *bentFences) {
			b.look(b.s.Fenced())
		})},
		{"keeps no positions", []string{"position or key"}, sitFences(true, func(_ *marksPlace, b *bentFences) {
			b.begin = b.s.Begin
		})},
		{"a given-up message was not applied", []string{"a dead letter moves the position"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			var mu sync.Mutex
			letters := make(map[tx]store.DeadLetter)
			b.bury = func(_ context.Context, t tx, d store.DeadLetter) error {
				mu.Lock()
				defer mu.Unlock()
				letters[t] = d
				return nil
			}
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				commit := u.commit
				u.commit = func(ctx context.Context) (store.End, error) {
					mu.Lock()
					d, dead := letters[u.Tx()]
					mu.Unlock()
					if !dead {
						return commit(ctx)
					}
					_ = u.unit.Rollback(ctx)
					return store.Committed, b.s.InTx(ctx, func(ctx context.Context, t tx) error { return b.s.BuryTx(ctx, t, d) })
				}
			})
		})},
		{"takes no place for the first one", []string{"a mark without a place"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendMarks(func(m store.Mark) store.Mark {
				if m.Place == nil {
					m.Place = &store.Place{}
				}
				return m
			})
		})},
		{"panics without a place", []string{"a mark without a place"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendPlaces(func(*store.Mark, *store.Place) {})
		})},
		{"MarkTx is that of another view", []string{"MarkTx of a view"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.markTx = b.s.MarkTx
		})},
		{"Revive is that of another view", []string{"Revive of a view"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.revive = b.s.Revive
		})},
		{"positions know no parked keys", []string{"positions and parked keys"}, sitFences(false, func(_ *marksPlace, b *bentFences) {
			b.bendPlaces(func(m *store.Mark, _ *store.Place) { m.Order = store.ID{} })
		})},
	}
}
