package kafkasub

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// partition is what a generation owns of a topic: a feed that reads it, lanes that handle what was
// read, and the knowledge of what is settled. The feed divides the messages among the lanes by
// their ordering key. An offset may be committed when no lane has anything unsettled before it.
type partition struct {
	at      place
	conf    *config
	feed    *feed
	lanes   []*lane
	commits *commits
	log     *slog.Logger
	fail    func(error)    // stops the consumer
	known   map[int64]head // heads of the last generation, by their offset

	counter   dedup.Counter // nil: nobody counts
	starter   string        // that this process is
	member    string        // that this generation is
	owner     string        // the name under which it has entered
	entered   atomic.Bool
	suspicion suspicion

	mu      sync.Mutex
	tracker tracker
	full    bool          // the feed waits for places
	restart func()        // makes the feed begin anew
	room    chan struct{} // tells it that there is one

	settled, end, progress atomic.Int64 // for whoever asks
}

func newPartition(g *generation, at place, start int64) *partition {
	kept := g.known(at)
	p := &partition{
		at: at, conf: &g.conf, commits: g.commits, log: g.logAt(at), fail: g.fail, known: kept.heads,
		counter: g.counter, starter: g.starter, member: fmt.Sprintf("%s/%d", g.gen.MemberID, g.gen.ID),
		tracker: newTracker(g.conf.prefetch), room: make(chan struct{}, 1),
	}
	p.settled.Store(-1)
	p.end.Store(-1)
	p.progress.Store(kept.progress.UnixNano())
	p.feed = newFeed(g, p, start)
	for range g.conf.lanes {
		p.lanes = append(p.lanes, newLane(g, p))
	}
	return p
}

// reading returns the context for the feed to read in. It ends when ctx or the reading does, or when
// a lane calls beginAnew.
func (p *partition) reading(ctx context.Context) (reading context.Context, end func()) {
	reading, end = context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restart = end
	return reading, end
}

// rereads makes the feed ask again where to begin.
func (p *partition) rereads() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restart()
}

// beginAnew drops everything that is not settled and makes the feed ask again where to begin. It is
// called by the only lane that there is.
func (p *partition) beginAnew(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restart()
	p.tracker.first = p.tracker.next
	l.inbox, l.queue, l.unsettled = queue{}, queue{}, 0
}

// settle says that messages of the lane are settled.
func (p *partition) settle(l *lane, numbers []uint64) {
	if len(numbers) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.unsettled -= len(numbers)
	p.tracker.finish(numbers)
	if p.advance() { // else it waits behind one that is not settled, and lanes that get on must not hide that
		p.progress.Store(time.Now().UnixNano())
	}
	// The feed is woken for more than one place, or it and a lane would take turns at every message.
	if p.full && p.tracker.free() > len(p.tracker.ring)/4 {
		p.full = false
		select {
		case p.room <- struct{}{}:
		default:
		}
	}
}

// advance reports whether there is nothing unsettled any more before something that is settled.
func (p *partition) advance() bool {
	next, again, moved := p.tracker.advance()
	if moved {
		p.reached(next, again)
	}
	return moved
}

// reached is called with the lock held, so that commits hears of a new log before its records.
func (p *partition) reached(next int64, again bool) {
	p.settled.Store(next)
	if again {
		p.commits.restart(p.at, next)
		return
	}
	p.commits.settled(p.at, next)
}

// atEnd says that the feed has nothing more to read. If everything is settled, that is progress.
func (p *partition) atEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tracker.isEmpty() {
		p.progress.Store(time.Now().UnixNano())
	}
}

// keepsake is asked when the partition is given up.
func (p *partition) keepsake() keepsake {
	heads, settled := map[int64]head{}, p.settled.Load()
	for offset, h := range p.known {
		if offset >= settled {
			heads[offset] = h
		}
	}
	for _, l := range p.lanes {
		if l.ended() && l.head.failures > 0 {
			heads[l.head.offset] = l.head
		}
	}
	return keepsake{heads: heads, progress: p.lastProgress()}
}

func (p *partition) lastProgress() time.Time { return time.Unix(0, p.progress.Load()) }

func (p *partition) failures() (most int) {
	for _, l := range p.lanes {
		most = max(most, int(l.failures.Load()))
	}
	return most
}
