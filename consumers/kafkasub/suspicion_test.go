package kafkasub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
)

// ownerUntil runs a consumer that is stopped in order while the message is handled, as the last one. Before
// it are so many that were done by whoever died, and never committed.
func ownerUntil(t *testing.T, b *servers.Kfake, count *tallies, repeats int64, last string, opts ...kafkasub.Option) {
	t.Helper()
	entered, goOn := make(chan struct{}), make(chan struct{})
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == last {
			close(entered)
			<-goOn
		}
		if m.Position.Offset < repeats {
			return dedup.Result{Outcome: dedup.Duplicate}
		}
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), counting{each{p}, count}, opts...))
	<-entered
	r.cancel()
	close(goOn)
	if err := r.wait(t); err != nil {
		t.Fatal(err)
	}
}

// nextOwner wants one that is careful, or not.
func nextOwner(t *testing.T, b *servers.Kfake, count *tallies, end int64, careful bool) {
	t.Helper()
	count.mu.Lock()
	count.log = nil
	count.mu.Unlock()
	r := run(t, newConsumer(t, groupConfig(b), counting{each{newFake(always)}, count}))
	untilCommitted(t, b, 0, end)
	r.stop(t)
	count.mu.Lock()
	defer count.mu.Unlock()
	if last := fmt.Sprintf("start m%d", end-1); slices.Contains(count.log, last) != careful {
		t.Errorf("the next owner is careful: %t, want %t: %q", !careful, careful, count.log)
	}
	if count.owners[0] != "" {
		t.Errorf("%q has not left, although all is done", count.owners[0])
	}
}

// What the dead owner had in hand may lie ahead, and kill the next owner.
func TestSuspicionOutlivesAnOwnerThatLeavesBeforeItIsWorkedOff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		repeats int64
		last    string
		careful bool
	}{
		{"in the middle of it", 0, "m1", true},
		{"behind more duplicates than are handled one at a time", 33, "m32", true},
		{"behind all of it", 0, "m7", false},
		{"behind such duplicates and all of it", 33, "m38", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			produce(t, b, 0, numbered("m", 40)...)
			count := newTallies()
			count.die(1)
			ownerUntil(t, b, count, c.repeats, c.last, kafkasub.WithPrefetch(3))
			nextOwner(t, b, count, 40, c.careful)
		})
	}
}

func TestSuspicionOutlivesAnOwnerThatCouldNotReadTheLog(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 3)...)
	var mended atomic.Bool
	b.Cluster.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		return nil, errors.New("the connection breaks"), !mended.Load()
	})
	count := newTallies()
	count.die(1)
	book, log := newLogBook(t)
	r := run(t, newConsumer(t, groupConfig(b), counting{each{newFake(always)}, count}, log))
	eventually(t, "the log cannot be read", func() bool { return book.has("the state of the log cannot be had") })
	r.stop(t)
	mended.Store(true)
	nextOwner(t, b, count, 3, true)
}
