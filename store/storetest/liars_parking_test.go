package storetest_test

import (
	"bytes"
	"context"
	"errors"

	"github.com/semel-dev/semel/store"
)

// parkingLiars lie about parked keys, about filters and about failures.
func parkingLiars() []liar {
	return []liar{
		{"knows no parked keys", []string{"a dead letter parks its key", "discarding the last letter", "a message waits for a revival", "in order under pressure"}, sitLetters(func(b *bentLetters) {
			b.marks.bendMarks(func(m store.Mark) store.Mark { m.Order = store.ID{}; return m })
		})},
		{"parks at the burial", []string{"a dead letter parks its key"}, sitLetters(func(b *bentLetters) {
			orders := b.buriedOrders()
			b.marks.bendStatuses(func(marks []store.Mark, statuses []store.Status) {
				for i := range marks {
					if statuses[i] == store.New && orders[marks[i].Order] {
						statuses[i] = store.Blocked
					}
				}
			})
		})},
		{"parks the key for everybody", []string{"a key is parked for its consumer", "blocked in a large batch"}, sitLetters(func(b *bentLetters) {
			orders := b.buriedOrders()
			b.marks.bendStatuses(func(marks []store.Mark, statuses []store.Status) {
				for i := range marks {
					if statuses[i] == store.New && orders[marks[i].Order] {
						statuses[i] = store.Blocked
					}
				}
			})
		})},
		{"every letter parks", []string{"only the dead park"}, sitLetters(func(b *bentLetters) {
			b.bendLetters(func(d *store.DeadLetter) { d.State = store.Dead })
		})},
		{"sets no blocked mark", []string{"a blocked mark is set"}, sitLetters(func(b *bentLetters) {
			begin := b.marks.begin
			b.marks.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := begin(ctx, marks)
				if err != nil || len(marks) != 1 || statuses[0] != store.Blocked {
					return u, statuses, err
				}
				_ = u.Rollback(ctx)
				u, _, err = begin(ctx, nil)
				return u, statuses, err
			}
		})},
		{"blocks the whole batch", []string{"blocked in a large batch"}, sitLetters(func(b *bentLetters) {
			b.marks.bendStatuses(func(_ []store.Mark, statuses []store.Status) {
				blocked := false
				for _, s := range statuses {
					blocked = blocked || s == store.Blocked
				}
				for i := range statuses {
					if blocked && statuses[i] == store.New {
						statuses[i] = store.Blocked
					}
				}
			})
		})},
		{"counts the head as waiting", []string{"parked keys"}, sitLetters(func(b *bentLetters) {
			parked := b.parked
			b.parked = func(ctx context.Context, consumer string, limit int) ([]store.ParkedKey, error) {
				keys, err := parked(ctx, consumer, limit)
				for i := range keys {
					keys[i].Waiting++
				}
				return keys, err
			}
		})},
		{"lists the parked keys of others", []string{"parked keys"}, sitLetters(func(b *bentLetters) {
			parked := b.parked
			b.parked = func(ctx context.Context, _ string, limit int) ([]store.ParkedKey, error) {
				return parked(ctx, "", limit)
			}
		})},
		{"releases the key with its first letter", []string{"discarding the last letter"}, sitLetters(func(b *bentLetters) {
			discard, released := b.discard, false
			b.discard = func(ctx context.Context, ids ...int64) (int, error) {
				released = true
				return discard(ctx, ids...)
			}
			b.marks.bendStatuses(func(_ []store.Mark, statuses []store.Status) {
				for i := range statuses {
					if released && statuses[i] == store.Blocked {
						statuses[i] = store.New
					}
				}
			})
		})},
		{"releases no key", []string{"discarding the last letter", "the last revival releases the key"}, sitLetters(func(b *bentLetters) {
			orders := b.buriedOrders()
			b.marks.bendStatuses(func(marks []store.Mark, statuses []store.Status) {
				for i := range marks {
					if statuses[i] == store.New && orders[marks[i].Order] {
						statuses[i] = store.Blocked
					}
				}
			})
		})},
		{"holds no parked key", []string{"a message behind a letter that is discarded", "a message behind the last letter", "a revival behind a long transaction"}, sitLetters(func(b *bentLetters) {
			begin := b.marks.begin
			b.marks.begin = func(ctx context.Context, marks []store.Mark) (unit, []store.Status, error) {
				u, statuses, err := begin(ctx, marks)
				if err != nil || len(marks) != 1 || statuses[0] != store.Blocked {
					return u, statuses, err
				}
				_ = u.Rollback(ctx)
				loose := marks[0]
				loose.Order = store.ID{}
				u, _, err = begin(ctx, []store.Mark{loose})
				return u, statuses, err
			}
		})},
		{"filters have no ordering key", []string{"filters"}, sitLetters(func(b *bentLetters) {
			b.bendFilters(func(f *store.LetterFilter) { f.Order = nil })
		})},
		{"ordering keys are text without case", []string{"filters"}, sitLetters(func(b *bentLetters) {
			b.bendLetters(func(d *store.DeadLetter) { d.Order = bytes.ToLower(d.Order) })
			b.bendFilters(func(f *store.LetterFilter) { f.Order = bytes.ToLower(f.Order) })
		})},
		{"filters have one state", []string{"filters"}, sitLetters(func(b *bentLetters) {
			b.bendFilters(func(f *store.LetterFilter) { f.States = f.States[:min(len(f.States), 1)] })
		})},
		{"filters have no last letter", []string{"filters"}, sitLetters(func(b *bentLetters) {
			b.bendFilters(func(f *store.LetterFilter) {
				if f.Last > 0 {
					f.Last--
				}
			})
		})},
		{"until includes its end", []string{"filters"}, sitLetters(func(b *bentLetters) {
			b.bendFilters(func(f *store.LetterFilter) {
				if !f.Until.IsZero() {
					f.Until = f.Until.Add(1)
				}
			})
		})},
		{"notes no failure", []string{"a failed revival is noted"}, sitLetters(func(b *bentLetters) {
			b.fail = func(ctx context.Context, id int64, _ string) error {
				_, err := b.s.GetDead(ctx, id)
				return err
			}
		})},
		{"keeps the first reason", []string{"a failed revival is noted"}, sitLetters(func(b *bentLetters) {
			fail := b.fail
			b.fail = func(ctx context.Context, id int64, _ string) error {
				d, err := b.s.GetDead(ctx, id)
				if err != nil {
					return err
				}
				return fail(ctx, id, d.Reason)
			}
		})},
		{"fails what is not there", []string{"no letter to fail"}, sitLetters(func(b *bentLetters) {
			fail := b.fail
			b.fail = func(ctx context.Context, id int64, reason string) error {
				if err := fail(ctx, id, reason); !errors.Is(err, store.ErrNotFound) {
					return err
				}
				return nil
			}
		})},
	}
}

// buriedOrders are the ordering keys of the dead letters, committed or not.
func (b *bentLetters) buriedOrders() map[store.ID]bool {
	orders := make(map[store.ID]bool)
	b.bendLetters(func(d *store.DeadLetter) {
		if d.State == store.Dead && d.Order != nil {
			orders[store.OrderID(d.Order)] = true
		}
	})
	return orders
}

// bendFilters changes every filter on its way in.
func (b *bentLetters) bendFilters(bend func(f *store.LetterFilter)) {
	list := b.list
	b.list = func(ctx context.Context, f store.LetterFilter, after int64, limit int) ([]store.DeadLetter, error) {
		bend(&f)
		return list(ctx, f, after, limit)
	}
}
