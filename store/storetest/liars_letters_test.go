package storetest_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/semel-dev/semel/store"
)

// lettersLiars lie about dead letters.
func lettersLiars() []liar {
	return []liar{
		{"buries in a transaction of its own", []string{"a letter commits with its mark", "a letter is rolled back with its mark"}, sitLetters(func(b *bentLetters) {
			b.bury = func(ctx context.Context, _ tx, d store.DeadLetter) error {
				return b.s.InTx(ctx, func(ctx context.Context, t tx) error { return b.s.BuryTx(ctx, t, d) })
			}
		})},
		{"one letter for a transaction", []string{"several letters in one transaction"}, sitLetters(func(b *bentLetters) {
			bury, buried := b.bury, make(map[tx]bool)
			b.bury = func(ctx context.Context, t tx, d store.DeadLetter) error {
				if buried[t] {
					return nil
				}
				buried[t] = true
				return bury(ctx, t, d)
			}
		})},
		{"headers in a map", []string{"every field"}, sitLetters(func(b *bentLetters) {
			b.bendLetters(func(d *store.DeadLetter) {
				last := make(map[string][]byte)
				for _, h := range d.Headers {
					last[h.Key] = h.Value
				}
				for i, h := range d.Headers {
					d.Headers[i].Value = last[h.Key]
				}
			})
		})},
		{"keys without their kind", []string{"every field"}, sitLetters(func(b *bentLetters) {
			b.bendLetters(func(d *store.DeadLetter) { d.Key.Timed = false })
		})},
		{"offsets of 32 bits", []string{"every field"}, sitLetters(func(b *bentLetters) {
			b.bendLetters(func(d *store.DeadLetter) { d.Offset = min(d.Offset, math.MaxInt32) })
		})},
		{"no body is an empty one", []string{"nil and empty"}, sitLetters(func(b *bentLetters) {
			b.bendLetters(func(d *store.DeadLetter) { d.Body = append([]byte{}, d.Body...) })
		})},
		{"an empty key is none", []string{"nil and empty"}, sitLetters(func(b *bentLetters) {
			b.bendLetters(func(d *store.DeadLetter) { d.MessageKey = append([]byte(nil), d.MessageKey...) })
		})},
		{"topics are text", []string{"any bytes"}, sitLetters(func(b *bentLetters) {
			b.bendLetters(func(d *store.DeadLetter) { d.Topic = strings.ToValidUTF8(d.Topic, "?") })
		})},
		{"headers are text", []string{"any bytes"}, sitLetters(func(b *bentLetters) {
			b.bendLetters(func(d *store.DeadLetter) {
				for i, h := range d.Headers {
					d.Headers[i].Value = []byte(strings.ReplaceAll(string(h.Value), "\x00", ""))
				}
			})
		})},
		{"refuses reasons that are not text", []string{"a reason of any bytes"}, sitLetters(func(b *bentLetters) {
			bury := b.bury
			b.bury = func(ctx context.Context, t tx, d store.DeadLetter) error {
				if strings.Contains(d.Reason, "\x00") || !utf8.ValidString(d.Reason) {
					return errors.New("22021")
				}
				return bury(ctx, t, d)
			}
		})},
		{"drops reasons that are not text", []string{"a reason of any bytes"}, sitLetters(func(b *bentLetters) {
			b.bendLetters(func(d *store.DeadLetter) {
				if !utf8.ValidString(d.Reason) {
					d.Reason = ""
				}
			})
		})},
		{"pages begin with the last one again", []string{"pages"}, sitLetters(func(b *bentLetters) {
			list := b.list
			b.list = func(ctx context.Context, f store.LetterFilter, after int64, limit int) ([]store.DeadLetter, error) {
				return list(ctx, f, after-1, limit)
			}
		})},
		{"pages without an end", []string{"pages"}, sitLetters(func(b *bentLetters) {
			list := b.list
			b.list = func(ctx context.Context, f store.LetterFilter, after int64, _ int) ([]store.DeadLetter, error) {
				return list(ctx, f, after, math.MaxInt)
			}
		})},
		{"lists the letters of others", []string{"pages"}, sitLetters(func(b *bentLetters) {
			list := b.list
			b.list = func(ctx context.Context, f store.LetterFilter, after int64, limit int) ([]store.DeadLetter, error) {
				f.Consumer = ""
				return list(ctx, f, after, limit)
			}
		})},
		{"nothing is an empty letter", []string{"not found"}, sitLetters(func(b *bentLetters) {
			get := b.get
			b.get = func(ctx context.Context, id int64) (store.DeadLetter, error) {
				d, err := get(ctx, id)
				if errors.Is(err, store.ErrNotFound) {
					err = nil
				}
				return d, err
			}
		})},
		{"counts what it was asked for", []string{"discard"}, sitLetters(func(b *bentLetters) {
			discard := b.discard
			b.discard = func(ctx context.Context, ids ...int64) (int, error) {
				_, err := discard(ctx, ids...)
				return len(ids), err
			}
		})},
		{"discards nothing", []string{"discard", "not found"}, sitLetters(func(b *bentLetters) {
			b.discard = func(_ context.Context, ids ...int64) (int, error) { return len(ids), nil }
		})},
		{"discards the mark as well", []string{"a discarded message is a duplicate"}, sitLetters(func(b *bentLetters) {
			discarded := byte(0)
			b.marks.bendMarks(func(m store.Mark) store.Mark { m.Key.ID[15] ^= discarded; return m })
			discard := b.discard
			b.discard = func(ctx context.Context, ids ...int64) (int, error) {
				discarded++
				return discard(ctx, ids...)
			}
		})},
	}
}
