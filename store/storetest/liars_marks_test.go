package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// marksLiars lie about marks and rivals.
func marksLiars() []liar {
	return []liar{
		{"each process has its own data", []string{"new then seen"}, sitMarks(func(p *marksPlace, _ *bentMarks) {
			p.Open = func() store.Marks[tx] { return memstore.New() }
		})},
		{"statuses in the order of the keys", []string{"order of statuses"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := begin(ctx, marks)
				slices.Reverse(statuses)
				return u, statuses, err
			}
		})},
		{"looks at all marks before it sets the first", []string{"equal marks in one call"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(_ *bentUnit, marks []store.Mark, statuses []store.Status) {
				for i := range marks {
					for j := range marks[:i] {
						if marks[i] == marks[j] {
							statuses[i] = statuses[j]
						}
					}
				}
			})
		})},
		{"needs a mark", []string{"no marks"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				if len(marks) == 0 {
					return nil, nil, errors.New("nothing to mark")
				}
				return begin(ctx, marks)
			}
		})},
		{"one scope for all", []string{"scopes are separate"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendMarks(func(m store.Mark) store.Mark { m.Scope = 1; return m })
		})},
		{"folds the case of names", []string{"names of scopes"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.scope = func(ctx context.Context, name string, keep time.Duration) (store.Scope, error) {
				return b.s.Scope(ctx, strings.ToLower(name), keep)
			}
		})},
		{"takes any name", []string{"names that cannot be"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.scope = func(ctx context.Context, name string, keep time.Duration) (store.Scope, error) {
				return b.s.Scope(ctx, fmt.Sprintf("%.80q", name), keep)
			}
		})},
		{"numbers the scopes in each process", []string{"names of scopes"}, sitMarks(func(p *marksPlace, b *bentMarks) {
			n := 0
			p.Open = func() store.Marks[tx] {
				own := *b
				n++
				process := n
				own.scope = func(ctx context.Context, name string, keep time.Duration) (store.Scope, error) {
					return b.s.Scope(ctx, fmt.Sprint(process, name), keep)
				}
				return &own
			}
		})},
		{"keeps marks for any time", []string{"times to keep that cannot be"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.scope = func(ctx context.Context, name string, keep time.Duration) (store.Scope, error) {
				return b.s.Scope(ctx, name, max(keep, time.Millisecond))
			}
		})},
		{"writes scopes in the open transaction", []string{"scope at any moment"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			undone := 0
			b.scope = func(ctx context.Context, name string, keep time.Duration) (store.Scope, error) {
				return b.s.Scope(ctx, fmt.Sprint(undone, name), keep)
			}
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				rollback := u.rollback
				u.rollback = func(ctx context.Context) error { undone++; return rollback(ctx) }
			})
		})},
		{"the effect is committed at once", []string{"effect commits with the mark", "rollback undoes both"}, sitMarks(func(p *marksPlace, b *bentMarks) {
			p.Effect = func(ctx context.Context, _ tx, name string) error {
				return b.s.InTx(ctx, func(ctx context.Context, t tx) error { _, err := t.Add(ctx, name, 1); return err })
			}
		})},
		{"the mark is committed at once", []string{"rollback undoes both", "rival of a rollback"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.begin = atOnce(b)
		})},
		{"a rollback removes whatever was marked", []string{"rollback spares what was seen"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			removed := make(map[store.Key]byte)
			b.bendMarks(func(m store.Mark) store.Mark { m.Key.ID[15] ^= removed[m.Key]; return m })
			b.bendUnits(func(u *bentUnit, marks []store.Mark, _ []store.Status) {
				rollback := u.rollback
				u.rollback = func(ctx context.Context) error {
					for _, m := range marks {
						removed[m.Key]++
					}
					return rollback(ctx)
				}
			})
		})},
		{"one table for timed and plain keys", []string{"timed and plain keys"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendMarks(func(m store.Mark) store.Mark { m.Key.Timed = false; return m })
		})},
		{"keys of 127 bits", []string{"every byte counts"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendMarks(func(m store.Mark) store.Mark { m.Key.ID[15] &^= 1; return m })
		})},
		{"times of a century", []string{"extreme times"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				for _, m := range marks {
					if y := m.Time.Year(); y < 1970 || y > 2070 {
						return nil, nil, errors.New("no partition for this time")
					}
				}
				return begin(ctx, marks)
			}
		})},
		{"partitioned by time", []string{"time is no identity"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendMarks(func(m store.Mark) store.Mark { m.Scope += store.Scope(m.Time.Unix() / 86400); return m })
		})},
		{"skips what is locked", []string{"rival of a commit", "rival of a rollback", "rival past the lock limit"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				limited, cancel := context.WithTimeout(ctx, time.Nanosecond)
				defer cancel()
				if u, statuses, err := begin(limited, marks); err == nil {
					return u, statuses, nil
				}
				u, _, err := b.s.Begin(ctx, nil)
				return u, slices.Repeat([]store.Status{store.Seen}, len(marks)), err
			}
		})},
		{"takes every end of a rival for a commit", []string{"rival of a rollback", "two rivals"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				before := time.Now()
				u, statuses, err := begin(ctx, marks)
				if time.Now().After(before) {
					for i := range statuses {
						statuses[i] = store.Seen
					}
				}
				return u, statuses, err
			}
		})},
		{"looks and marks later", []string{"two rivals", "fifty rivals"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := begin(ctx, marks)
				if err != nil {
					return nil, nil, err
				}
				_ = u.Rollback(ctx)
				time.Sleep(time.Millisecond)
				u, _, err = begin(ctx, nil)
				return u, statuses, err
			}
		})},
		{"one transaction at a time", []string{"no rival, no wait"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := begin(ctx, marks)
				if err != nil {
					return nil, nil, err
				}
				if err := u.Tx().Put(ctx, "the one lock", 0); err != nil {
					return nil, nil, err
				}
				return u, statuses, nil
			}
		})},
		{"holds what it has seen", []string{"two rivals of a commit", "no rival, no wait"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := begin(ctx, marks)
				for i := range statuses {
					if statuses[i] == store.Seen {
						if err := u.Tx().Put(ctx, "lock of "+marks[i].Key.ID.String(), 0); err != nil {
							return nil, nil, err
						}
					}
				}
				return u, statuses, err
			}
		})},
		{"waits without a limit", []string{"rival past the lock limit", "next behind a busy mark"}, sitMarks(func(p *marksPlace, _ *bentMarks) {
			s := memstore.New(memstore.WithLockWait(time.Hour))
			*p, _ = honestMarks(s)
		})},
		{"leaves open what it got before it was busy", []string{"rival past the lock limit", "a rival gives up"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			begin := b.begin
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := begin(ctx, marks)
				if err != nil && len(marks) > 1 {
					_, _, _ = begin(context.WithoutCancel(ctx), marks[1:])
				}
				return u, statuses, err
			}
		})},
		{"marks in the order given", []string{"batches in opposite order"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := b.s.Begin(ctx, nil)
				for _, m := range marks {
					// A server takes its time between two rows.
					time.Sleep(time.Microsecond)
					st, err := b.s.MarkTx(ctx, u.Tx(), []store.Mark{m})
					if err != nil {
						_ = u.Rollback(ctx)
						return nil, nil, err
					}
					statuses = append(statuses, st...)
				}
				return u, statuses, err
			}
		})},
		{"calls every error the handler's", []string{"rival past the lock limit", "begin under an ended context", "commit under an ended context"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.fault = func(error) store.Fault { return store.FaultHandler }
		})},
		{"knows its errors only unwrapped", []string{"rival past the lock limit"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.fault = func(err error) store.Fault {
				if strings.HasPrefix(err.Error(), "memstore") {
					return b.s.Fault(err)
				}
				return store.FaultHandler
			}
		})},
		{"begins whatever the context says", []string{"begin under an ended context"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				return b.s.Begin(context.WithoutCancel(ctx), marks)
			}
		})},
		{"waits whatever the context says", []string{"a rival gives up"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				return b.s.Begin(context.WithoutCancel(ctx), marks)
			}
		})},
		{"MarkTx has a transaction of its own", []string{"TxMarker commits with the caller", "TxMarker knows its own marks"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.markTx = func(ctx context.Context, _ tx, marks []store.Mark) ([]store.Status, error) {
				u, statuses, err := b.s.Begin(ctx, marks)
				if err != nil {
					return nil, err
				}
				_, err = u.Commit(ctx)
				return statuses, err
			}
		})},
		{"MarkTx skips what is locked", []string{"TxMarker waits for a rival", "TxMarker past the lock limit"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.markTx = func(ctx context.Context, t tx, marks []store.Mark) ([]store.Status, error) {
				limited, cancel := context.WithTimeout(ctx, time.Nanosecond)
				defer cancel()
				if statuses, err := b.s.MarkTx(limited, t, marks); err == nil {
					return statuses, nil
				}
				return slices.Repeat([]store.Status{store.Seen}, len(marks)), nil
			}
		})},
	}
}

// atOnce commits the marks before the transaction that it opens.
func atOnce(b *bentMarks) beginFunc {
	var mu sync.Mutex
	return func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
		mu.Lock()
		defer mu.Unlock()
		u, statuses, err := b.s.Begin(ctx, marks)
		if err != nil {
			return nil, nil, err
		}
		if _, err := u.Commit(ctx); err != nil {
			return nil, nil, err
		}
		u, _, err = b.s.Begin(ctx, nil)
		return u, statuses, err
	}
}
