package storetest_test

import (
	"bytes"
	"context"
	"errors"

	"github.com/semel-dev/semel/store"
)

// revivalLiars lie about letters that are run again.
func revivalLiars() []liar {
	return []liar{
		{"removes the letter before the handler runs", []string{"a revived letter goes with the effect", "a revival rolled back"}, sitLetters(func(b *bentLetters) {
			revive := b.revive
			b.revive = func(ctx context.Context, id int64) (unit, store.DeadLetter, error) {
				u, d, err := revive(ctx, id)
				if err != nil {
					return nil, d, err
				}
				if _, err := u.Commit(ctx); err != nil {
					return nil, d, err
				}
				u, _, err = b.s.Begin(ctx, nil)
				return u, d, err
			}
		})},
		{"removes the letter after the commit", []string{
			"two revivals of a letter", "revivals of two letters of a key", "a message waits for a revival",
			"a message behind a long revival", "a discard beside a revival",
		}, sitLetters(func(b *bentLetters) {
			b.revive = func(ctx context.Context, id int64) (unit, store.DeadLetter, error) { return b.later(ctx, id) }
		})},
		{"revives in any order", []string{"revivals in their order"}, sitLetters(func(b *bentLetters) {
			revive := b.revive
			b.revive = func(ctx context.Context, id int64) (unit, store.DeadLetter, error) {
				u, d, err := revive(ctx, id)
				if errors.Is(err, store.ErrBehind) {
					return b.later(ctx, id)
				}
				return u, d, err
			}
		})},
		{"revives what is not there", []string{"no letter to revive"}, sitLetters(func(b *bentLetters) {
			revive := b.revive
			b.revive = func(ctx context.Context, id int64) (unit, store.DeadLetter, error) {
				u, d, err := revive(ctx, id)
				if errors.Is(err, store.ErrNotFound) {
					u, _, err = b.s.Begin(ctx, nil)
				}
				return u, d, err
			}
		})},
		{"a revival is one transaction and no unit", []string{"a revival goes on"}, sitLetters(func(b *bentLetters) {
			b.bendRevivals(func(u *bentUnit) {
				u.next = func(ctx context.Context, _ []store.Mark) (store.End, []store.Status, error) {
					end, err := u.unit.Commit(ctx)
					return end, nil, err
				}
			})
		})},
		{"parks a key only once", []string{"a death beside a revival", "a death behind a revival"}, sitLetters(func(b *bentLetters) {
			bury := b.bury
			b.bury = func(ctx context.Context, t tx, d store.DeadLetter) error {
				keys, err := b.s.ParkedKeys(ctx, d.Consumer, 100)
				for _, k := range keys {
					if d.State == store.Dead && bytes.Equal(k.Order, d.Order) {
						d.Order = nil
					}
				}
				return errors.Join(err, bury(ctx, t, d))
			}
		})},
	}
}

// later opens a transaction in which the letter is still there; it goes after the commit.
func (b *bentLetters) later(ctx context.Context, id int64) (unit, store.DeadLetter, error) {
	d, err := b.s.GetDead(ctx, id)
	if err != nil {
		return nil, d, err
	}
	u, _, err := b.s.Begin(ctx, nil)
	if err != nil {
		return nil, d, err
	}
	bent := &bentUnit{u, u.Commit, u.Next, u.Rollback, u.Fault}
	bent.commit = func(ctx context.Context) (store.End, error) {
		end, err := u.Commit(ctx)
		if err == nil {
			_, err = b.s.DiscardDead(ctx, id)
		}
		return end, err
	}
	return bent, d, nil
}

// bendRevivals replaces acts of every unit of a revival.
func (b *bentLetters) bendRevivals(bend func(u *bentUnit)) {
	revive := b.revive
	b.revive = func(ctx context.Context, id int64) (unit, store.DeadLetter, error) {
		u, d, err := revive(ctx, id)
		if err != nil {
			return nil, d, err
		}
		bent := &bentUnit{u, u.Commit, u.Next, u.Rollback, u.Fault}
		bend(bent)
		return bent, d, nil
	}
}
