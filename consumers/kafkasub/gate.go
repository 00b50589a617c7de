package kafkasub

import (
	"context"
	"sync"
	"sync/atomic"
)

// gate is what lanes pass before they hand messages over. Its zero value is open.
type gate struct {
	shut   atomic.Bool // whether it is worth taking the lock
	mu     sync.Mutex
	opened chan struct{} // closed when the gate opens; nil while it is open
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
		g.shut.Store(true)
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
		g.shut.Store(false)
	}
}

// pass waits while the gate is closed and reports false when ctx has ended.
func (g *gate) pass(ctx context.Context) bool {
	for g.shut.Load() {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		if opened == nil {
			break
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
