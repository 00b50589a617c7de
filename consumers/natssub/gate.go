package natssub

import "sync"

// gate is what [Consumer.Pause] closes. Its zero value is open.
type gate struct {
	mu      sync.Mutex
	shut    bool
	changed chan struct{} // closed at the next change; nil while nobody waits for it
}

// set closes or opens the gate and tells whether that changed it.
func (g *gate) set(shut bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == shut {
		return false
	}
	g.shut = shut
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
	return true
}

// watch tells whether the gate is closed, and when that will have changed.
func (g *gate) watch() (shut bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.shut, g.changed
}

// Pause makes the consumer hand nothing more over, retries included, until [Consumer.Resume]. What
// handlers have may finish; everything else that is in hand goes back to the server, for other
// processes, and nothing more is fetched. Run goes on. Pause does not wait; it may be called at
// any time, before Run too, and more than once.
func (c *Consumer) Pause() {
	if c.gate.set(true) {
		c.log.Info("paused")
	}
}

// Resume ends a [Consumer.Pause].
func (c *Consumer) Resume() {
	if c.gate.set(false) {
		c.log.Info("resumed")
	}
}

// Paused tells whether the consumer is paused.
func (c *Consumer) Paused() bool {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return c.gate.shut
}

// obey empties the hand when the gate closes and fills it again when it opens.
func (r *run) obey() {
	for {
		shut, changed := r.gate.watch()
		if shut {
			r.giveBackAll(r.hand.pause())
		} else {
			r.hand.resume()
		}
		select {
		case <-changed:
		case <-r.live.Done():
			return
		}
	}
}
