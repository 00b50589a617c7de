package storetest_test

import (
	"context"
	"errors"
	"slices"

	"github.com/semel-dev/semel/store"
)

// unitLiars lie about the ends of transactions.
func unitLiars() []liar {
	return []liar{
		{"next commits at the end", []string{"rival of a next", "next commits and marks", "rollback after next"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				u.next = func(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
					statuses, err := b.s.MarkTx(ctx, u.Tx(), marks)
					return store.Committed, statuses, err
				}
			})
		})},
		{"next reports the end of the next one", []string{"next behind a busy mark"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				next := u.next
				u.next = func(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
					end, statuses, err := next(ctx, marks)
					if err != nil {
						end = store.RolledBack
					}
					return end, statuses, err
				}
			})
		})},
		{"next sets no marks", []string{"next commits and marks", "next after seen"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				next := u.next
				u.next = func(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
					end, _, err := next(ctx, nil)
					return end, slices.Repeat([]store.Status{store.New}, len(marks)), err
				}
			})
		})},
		{"a transaction with nothing new is closed", []string{"next after seen"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, statuses []store.Status) {
				if len(statuses) > 0 && !slices.Contains(statuses, store.New) {
					_ = u.unit.Rollback(context.Background())
				}
			})
		})},
		{"a rollback is too late after next", []string{"rollback after next"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				next, rollback := u.next, u.rollback
				u.next = func(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
					u.rollback = func(ctx context.Context) error {
						_, _ = u.unit.Commit(ctx)
						return rollback(ctx)
					}
					return next(ctx, marks)
				}
			})
		})},
		{"commits as often as it is asked", []string{"ended units refuse"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				commit := u.commit
				u.commit = func(ctx context.Context) (store.End, error) {
					end, err := commit(ctx)
					if errors.Is(err, store.ErrEnded) {
						return store.Committed, nil
					}
					return end, err
				}
			})
		})},
		{"rolls back only once", []string{"ended units refuse"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				rollback := u.rollback
				u.rollback = func(ctx context.Context) error {
					if end, err := u.unit.Commit(ended); end != store.RolledBack {
						return err
					}
					return rollback(ctx)
				}
			})
		})},
		{"lends the connection and not the transaction", []string{"a transaction outlived"}, sitMarks(func(p *marksPlace, b *bentMarks) {
			later := make(map[tx]tx)
			effect := p.Effect
			p.Effect = func(ctx context.Context, t tx, name string) error {
				for later[t] != nil {
					t = later[t]
				}
				return effect(ctx, t, name)
			}
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				next := u.next
				u.next = func(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
					former := u.Tx()
					end, statuses, err := next(ctx, marks)
					later[former] = u.Tx()
					return end, statuses, err
				}
			})
		})},
		{"commits over an error", []string{"a swallowed error"}, sitMarks(func(p *marksPlace, _ *bentMarks) {
			p.Spoil = func(context.Context, tx) {}
		})},
		{"takes ROLLBACK for an answer to COMMIT", []string{"a swallowed error"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				commit := u.commit
				u.commit = func(ctx context.Context) (store.End, error) {
					if end, err := commit(ctx); end == 0 {
						return end, err
					}
					return store.Committed, nil
				}
			})
		})},
		{"every error is an outage", []string{"fault of a handler"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				u.fault = func(error) store.Fault { return store.FaultOutage }
			})
		})},
		{"commits whatever the context says", []string{"commit under an ended context"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				commit := u.commit
				u.commit = func(ctx context.Context) (store.End, error) { return commit(context.WithoutCancel(ctx)) }
			})
		})},
		{"next commits whatever the context says", []string{"commit under an ended context"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				next := u.next
				u.next = func(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
					return next(context.WithoutCancel(ctx), marks)
				}
			})
		})},
		{"does not roll back under an ended context", []string{"rollback under an ended context"}, sitMarks(func(_ *marksPlace, b *bentMarks) {
			b.bendUnits(func(u *bentUnit, _ []store.Mark, _ []store.Status) {
				rollback := u.rollback
				u.rollback = func(ctx context.Context) error {
					if err := ctx.Err(); err != nil {
						return err
					}
					return rollback(ctx)
				}
			})
		})},
	}
}

var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
