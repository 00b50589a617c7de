package kafkasub

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime/debug"

	"github.com/semel-dev/semel/dedup"
)

// admit takes up what the feed has read. It waits while all places are taken, and reports false
// when ctx has ended.
func (p *partition) admit(ctx context.Context, it item) bool {
	if it.end >= 0 {
		p.end.Store(it.end)
	}
	switch it.kind {
	case started:
		p.commits.begin(p.at, it.start)
		p.settled.Store(it.start)
		return true
	case marker:
		p.mu.Lock()
		defer p.mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
		if offset := it.m.Position.Offset; !p.tracker.extend(offset) {
			p.reached(offset+1, false)
		}
		return true
	case restarted:
		if !p.lockWithRoom(ctx, 1) {
			return false
		}
		defer p.mu.Unlock()
		p.tracker.restart(it.start)
		p.advance()
		return true
	}
	key, err := p.orderingKey(&it.m)
	if err != nil {
		p.fail(err)
		return false
	}
	if !p.lockWithRoom(ctx, 1) {
		return false
	}
	l := p.laneOf(key, it.m.Position.Offset)
	wake := l.post(&it.m, p.tracker.add(it.m.Position.Offset))
	p.mu.Unlock()
	if wake {
		l.rouse()
	}
	return true
}

// lockWithRoom returns with the lock held and places free, or without the lock when ctx has ended.
func (p *partition) lockWithRoom(ctx context.Context, places int) bool {
	p.mu.Lock()
	for p.tracker.free() < places {
		p.full = true
		for _, l := range p.lanes {
			l.rouse() // nothing will come any more that a batch could wait for
		}
		p.mu.Unlock()
		select {
		case <-p.room:
		case <-ctx.Done():
			return false
		}
		p.mu.Lock()
	}
	if ctx.Err() != nil {
		p.mu.Unlock() // what was read is of no use any more
		return false
	}
	return true
}

// drained waits until everything that was admitted is settled. It reports false when ctx has ended.
func (p *partition) drained(ctx context.Context) bool {
	if !p.lockWithRoom(ctx, len(p.tracker.ring)) {
		return false
	}
	p.mu.Unlock()
	return true
}

var seed = maphash.MakeSeed()

// laneOf returns the lane for a message: that of its ordering key, or, where it has none, the one
// with the least to do.
func (p *partition) laneOf(key []byte, offset int64) *lane {
	n := len(p.lanes)
	if n == 1 {
		return p.lanes[0]
	}
	if len(key) > 0 {
		return p.lanes[maphash.Bytes(seed, key)%uint64(n)]
	}
	least := p.lanes[int(offset%int64(n))]
	for _, l := range p.lanes {
		if l.unsettled < least.unsettled {
			least = l
		}
	}
	return least
}

// orderingKey is where a panic of the caller's function becomes an error: without the key nobody
// knows what the message must not overtake.
func (p *partition) orderingKey(m *dedup.Message) (key []byte, err error) {
	if p.conf.orderBy == nil || len(p.lanes) == 1 {
		return m.Key, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s@%d: the function of WithOrderBy panicked: %v\n%s", p.at, m.Position.Offset, v, debug.Stack())
		}
	}()
	return p.conf.orderBy(*m), nil
}
