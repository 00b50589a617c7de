package outbox_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// watched is a queue that tells what its relay does, for tests that would otherwise have to
// sleep until it must have done so.
type watched struct {
	store.Queue

	mu     sync.Mutex
	begun  int // looks for flowing events, but for those that failed
	looks  int // that have ended
	holds  int // that were begun
	fails  int // of whatever
	change chan struct{}
}

func watch(q store.Queue) *watched { return &watched{Queue: q, change: make(chan struct{})} }

func (w *watched) Join(relay string, lease time.Duration) store.Member {
	return watchedMember{w.Queue.Join(relay, lease), w}
}

func (w *watched) note(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	close(w.change)
	w.change = make(chan struct{})
}

// until waits until the condition holds; it is asked whenever the relay has done something.
func (w *watched) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(patience)
	for {
		w.mu.Lock()
		ok, change := is(), w.change
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-change:
		case <-limit:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// further waits until the relay has looked for events n times more, each time from now on.
func (w *watched) further(t *testing.T, n int) {
	t.Helper()
	w.mu.Lock()
	from := w.begun // one of them may be under way, and have seen what was before
	w.mu.Unlock()
	w.until(t, "the relay looks", func() bool { return w.looks >= from+n })
}

func (w *watched) failures() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fails
}

type watchedMember struct {
	store.Member
	w *watched
}

func (m watchedMember) Hold(ctx context.Context) (store.Holding, error) {
	m.w.note(func() { m.w.holds++ })
	h, err := m.Member.Hold(ctx)
	if err != nil {
		m.w.note(func() { m.w.fails++ })
	}
	return h, err
}

func (m watchedMember) Next(ctx context.Context, done store.Settlement, want store.Want) (store.Batch, error) {
	looks := want.Flow > 0 && len(want.Slots) > 0
	if looks {
		m.w.note(func() { m.w.begun++ })
	}
	b, err := m.Member.Next(ctx, done, want)
	switch {
	case err != nil:
		m.w.note(func() {
			m.w.fails++
			if looks {
				m.w.begun--
			}
		})
	case looks:
		m.w.note(func() { m.w.looks++ })
	}
	return b, err
}

// listen returns a logger for a relay, and a function that waits until it has logged the words.
func listen(t *testing.T, words string) (outbox.RelayOption, func()) {
	l := &listener{words: words, heard: make(chan struct{})}
	return outbox.WithLogger(slog.New(slog.NewTextHandler(l, nil))), func() {
		t.Helper()
		select {
		case <-l.heard:
		case <-time.After(20 * time.Second):
			t.Fatalf("the relay does not log within 20s: %s", words)
		}
	}
}

type listener struct {
	words string
	once  sync.Once
	heard chan struct{}
}

func (l *listener) Write(line []byte) (int, error) {
	if strings.Contains(string(line), l.words) {
		l.once.Do(func() { close(l.heard) })
	}
	return len(line), nil
}
