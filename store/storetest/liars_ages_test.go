package storetest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// agesLiars lie about the removal of old marks.
func agesLiars() []liar {
	return []liar{
		{"removes nothing", []string{"old marks are removed", "reached without a time"}, sitAges(func(p *agesPlace, _ *bentAges) {
			p.Purge = func(context.Context) error { return nil }
		})},
		{"removes by its clock", []string{"nothing before it is time", "the partition that is furthest behind"}, sitAges(func(p *agesPlace, b *bentAges) {
			purge := p.Purge
			b.reached = func(context.Context, store.Scope, []store.Reach) error { return nil }
			p.Purge = func(ctx context.Context) error {
				for scope := store.Scope(1); b.s.Reached(ctx, scope, []store.Reach{{Log: "the clock", Newest: time.Now()}}) == nil; scope++ {
				}
				return purge(ctx)
			}
		})},
		{"removes at once", []string{"nothing before it is time"}, sitAges(func(p *agesPlace, b *bentAges) {
			reached := b.reached
			b.reached = func(ctx context.Context, scope store.Scope, partitions []store.Reach) error {
				if err := reached(ctx, scope, partitions); err != nil {
					return err
				}
				return p.Purge(ctx)
			}
		})},
		{"ever is two months", []string{"kept for ever"}, sitAges(func(_ *agesPlace, b *bentAges) {
			b.scope = func(ctx context.Context, name string, keep time.Duration) (store.Scope, error) {
				return b.s.Scope(ctx, name, min(keep, 60*24*time.Hour))
			}
		})},
		{"the first to ask has it", []string{"kept for each consumer's time"}, sitAges(func(_ *agesPlace, b *bentAges) {
			first := make(map[string]time.Duration)
			b.scope = func(ctx context.Context, name string, keep time.Duration) (store.Scope, error) {
				if _, asked := first[name]; !asked {
					first[name] = keep
				}
				return b.s.Scope(ctx, name, first[name])
			}
		})},
		{"one time to keep for all", []string{"kept for each consumer's time"}, sitAges(func(_ *agesPlace, b *bentAges) {
			b.scope = func(ctx context.Context, name string, _ time.Duration) (store.Scope, error) {
				return b.s.Scope(ctx, name, 30*24*time.Hour)
			}
		})},
		{"one partition for all", []string{"the partition that is furthest behind", "reached without a time"}, sitAges(func(_ *agesPlace, b *bentAges) {
			b.bendReaches(func(r *store.Reach, _ time.Time) { r.Log, r.Partition = "", 0 })
		})},
		{"the oldest word counts", []string{"never back"}, sitAges(func(_ *agesPlace, b *bentAges) {
			n := 0
			b.bendReaches(func(r *store.Reach, _ time.Time) { n++; r.Log = fmt.Sprint(r.Log, n) })
		})},
		{"takes the next century for today", []string{"not past the clock"}, sitAges(func(_ *agesPlace, b *bentAges) {
			b.bendReaches(func(r *store.Reach, now time.Time) {
				if r.Newest.After(now) {
					r.Newest = now
				}
			})
		})},
		{"no time is no news", []string{"reached without a time"}, sitAges(func(_ *agesPlace, b *bentAges) {
			b.bendReaches(func(r *store.Reach, _ time.Time) {
				if r.Newest.IsZero() {
					r.Newest = time.Unix(0, 0)
				}
			})
		})},
		{"runs what is late", []string{"late and not new", "late beside others", "a purge beside a handler", "TxMarker knows late messages"}, sitAges(func(_ *agesPlace, b *bentAges) {
			b.takeFor(store.Late, store.New)
		})},
		{"one late message makes all of them late", []string{"late beside others", "TxMarker knows late messages"}, sitAges(func(_ *agesPlace, b *bentAges) {
			b.bendStatuses(func(_ []store.Mark, statuses []store.Status) {
				late := false
				for _, s := range statuses {
					late = late || s == store.Late
				}
				for i := range statuses {
					if late {
						statuses[i] = store.Late
					}
				}
			})
		})},
		{"no time is the oldest", []string{"never late without a time"}, sitAges(func(_ *agesPlace, b *bentAges) {
			b.bendMarks(func(m store.Mark) store.Mark {
				if m.Time.IsZero() {
					m.Time = time.Unix(0, 0)
				}
				return m
			})
		})},
		{"goes by the message's time alone", []string{"late and not new"}, sitAges(func(_ *agesPlace, b *bentAges) {
			b.bendMarks(func(m store.Mark) store.Mark { m.Key.Timed = false; return m })
		})},
		{"whoever has a fingerprint was there", []string{"late with a fingerprint or an ordering key"}, sitAges(func(_ *agesPlace, b *bentAges) {
			b.bendStatuses(func(marks []store.Mark, statuses []store.Status) {
				for i := range marks {
					if statuses[i] == store.Late && !marks[i].Fingerprint.IsZero() {
						statuses[i] = store.Seen
					}
				}
			})
		})},
	}
}
