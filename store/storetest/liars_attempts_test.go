package storetest_test

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/semel-dev/semel/store"
)

// attemptsLiars lie about what is counted and about who works on a partition.
func attemptsLiars() []liar {
	return []liar{
		{"counts from zero", []string{"attempts from one"}, sitAttempts(func(b *bentAttempts) {
			spend := b.spend
			b.spend = func(ctx context.Context, scope store.Scope, key store.Key) (int, error) {
				n, err := spend(ctx, scope, key)
				return n - 1, err
			}
		})},
		{"counts starts and failures together", []string{"attempts from one"}, sitAttempts(func(b *bentAttempts) {
			b.start = func(ctx context.Context, scope store.Scope, key store.Key, _ string) (store.Tally, error) {
				n, err := b.Spend(ctx, scope, key)
				return store.Tally{Starts: n}, err
			}
		})},
		{"holds starts against one that failed", []string{"attempts from one"}, sitAttempts(func(b *bentAttempts) {
			counts := make(map[store.Key]int)
			b.start = func(_ context.Context, _ store.Scope, key store.Key, _ string) (store.Tally, error) {
				counts[key]++
				return store.Tally{Starts: counts[key]}, nil
			}
		})},
		{"keeps the failures to itself", []string{"attempts from one", "a start that is repeated"}, sitAttempts(func(b *bentAttempts) {
			start := b.start
			b.start = func(ctx context.Context, scope store.Scope, key store.Key, starter string) (store.Tally, error) {
				t, err := start(ctx, scope, key, starter)
				t.Spent = 0
				return t, err
			}
		})},
		{"counts every start", []string{"a start that is repeated"}, sitAttempts(func(b *bentAttempts) {
			start := b.start
			b.start = func(ctx context.Context, scope store.Scope, key store.Key, _ string) (store.Tally, error) {
				return start(ctx, scope, key, rand.Text())
			}
		})},
		{"takes no start back", []string{"a start that is taken back"}, sitAttempts(func(b *bentAttempts) {
			b.survive = func(context.Context, store.Scope, store.Key, string) error { return nil }
		})},
		{"anybody takes a start back", []string{"a start that is taken back"}, sitAttempts(func(b *bentAttempts) {
			last, start, survive := "", b.start, b.survive
			b.start = func(ctx context.Context, scope store.Scope, key store.Key, starter string) (store.Tally, error) {
				last = starter
				return start(ctx, scope, key, starter)
			}
			b.survive = func(ctx context.Context, scope store.Scope, key store.Key, _ string) error {
				return survive(ctx, scope, key, last)
			}
		})},
		{"takes all starts back", []string{"a start that is taken back"}, sitAttempts(func(b *bentAttempts) {
			b.survive = func(ctx context.Context, scope store.Scope, key store.Key, _ string) error {
				return b.Forget(ctx, scope, key)
			}
		})},
		{"counts keys without their kind", []string{"attempts of each message", "forgotten attempts"}, sitAttempts(func(b *bentAttempts) {
			spend := b.spend
			b.spend = func(ctx context.Context, scope store.Scope, key store.Key) (int, error) {
				key.Timed = false
				return spend(ctx, scope, key)
			}
		})},
		{"counts for all consumers together", []string{"attempts of each message"}, sitAttempts(func(b *bentAttempts) {
			start := b.start
			b.start = func(ctx context.Context, _ store.Scope, key store.Key, starter string) (store.Tally, error) {
				return start(ctx, 1, key, starter)
			}
		})},
		{"forgets nothing", []string{"forgotten attempts"}, sitAttempts(func(b *bentAttempts) {
			b.forget = func(context.Context, store.Scope, store.Key) error { return nil }
		})},
		{"reads the count and writes it later", []string{"fifty who count"}, sitAttempts(func(b *bentAttempts) {
			var mu sync.Mutex
			counts := make(map[store.Key]int)
			b.spend = func(_ context.Context, _ store.Scope, key store.Key) (int, error) {
				mu.Lock()
				n := counts[key] + 1
				mu.Unlock()
				time.Sleep(time.Microsecond)
				mu.Lock()
				counts[key] = n
				mu.Unlock()
				return n, nil
			}
		})},
		{"the first one is suspect", []string{"the first to enter"}, sitAttempts(func(b *bentAttempts) {
			met, enter := make(map[int]bool), b.enter
			b.enter = func(ctx context.Context, scope store.Scope, log string, partition int, owner string) (bool, error) {
				orderly, err := enter(ctx, scope, log, partition, owner)
				orderly = orderly && met[partition]
				met[partition] = true
				return orderly, err
			}
		})},
		{"logs are text without case", []string{"the first to enter", "one who is replaced"}, sitAttempts(func(b *bentAttempts) {
			enter, leave := b.enter, b.leave
			b.enter = func(ctx context.Context, scope store.Scope, log string, partition int, owner string) (bool, error) {
				return enter(ctx, scope, strings.ToLower(log), partition, owner)
			}
			b.leave = func(ctx context.Context, scope store.Scope, log string, partition int, owner string) error {
				return leave(ctx, scope, strings.ToLower(log), partition, owner)
			}
		})},
		{"nobody leaves", []string{"after one who has left"}, sitAttempts(func(b *bentAttempts) {
			b.leave = func(context.Context, store.Scope, string, int, string) error { return nil }
		})},
		{"everybody is orderly", []string{"after one who has left", "one who is replaced"}, sitAttempts(func(b *bentAttempts) {
			enter := b.enter
			b.enter = func(ctx context.Context, scope store.Scope, log string, partition int, owner string) (bool, error) {
				_, err := enter(ctx, scope, log, partition, owner)
				return true, err
			}
		})},
		{"suspects whoever is there", []string{"one who is still there"}, sitAttempts(func(b *bentAttempts) {
			enter, last := b.enter, ""
			b.enter = func(ctx context.Context, scope store.Scope, log string, partition int, owner string) (bool, error) {
				orderly, err := enter(ctx, scope, log, partition, owner)
				orderly = orderly && owner != last
				last = owner
				return orderly, err
			}
		})},
		{"anybody may leave", []string{"one who is replaced"}, sitAttempts(func(b *bentAttempts) {
			enter, leave, last := b.enter, b.leave, ""
			b.enter = func(ctx context.Context, scope store.Scope, log string, partition int, owner string) (bool, error) {
				last = owner
				return enter(ctx, scope, log, partition, owner)
			}
			b.leave = func(ctx context.Context, scope store.Scope, log string, partition int, _ string) error {
				return leave(ctx, scope, log, partition, last)
			}
		})},
	}
}
