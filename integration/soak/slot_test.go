//go:build unix

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/semel-dev/semel/integration/servers"
)

// slot is a place for one process after another: when one has ended, however it did, the
// next one joins after a while.
type slot struct {
	w        *world
	group    *group // nil for a relay
	name     string
	orders   orders
	broker   *servers.Proxy
	database *servers.PostgresProxy
	rng      *rand.Rand

	mu      sync.Mutex
	current *child
	held    int // how many want nobody to join
	freed   chan struct{}
	started int
}

func (s *slot) consumer() bool { return s.group != nil }

// run keeps the slot filled until ctx ends; then it asks the last process to leave.
func (s *slot) run(ctx context.Context) {
	for s.awaitRelease(ctx) {
		c, err := s.start()
		if err != nil {
			s.w.t.Errorf("start %s: %v", s.name, err)
			return
		}
		select {
		case <-c.done:
			s.w.ended(ctx, s, c)
			pause(ctx, time.Duration(s.rng.IntN(700))*time.Millisecond)
		case <-ctx.Done():
			s.leave(c)
			return
		}
	}
}

// leave is the last one's end. Nothing is broken by now, so it should be a good one.
func (s *slot) leave(c *child) {
	c.end()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		c.kill()
		s.w.t.Errorf("%s was asked to end and did not within a minute: %s", c.name, c.said(3000))
		return
	}
	switch c.fate() {
	case left:
	case gaveUp:
		s.w.t.Logf("%s did not end cleanly: %s", c.name, c.said(500))
	default:
		s.w.t.Errorf("%s was asked to end and ended otherwise: %s", c.name, c.said(3000))
	}
}

func (s *slot) start() (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	o := s.orders
	o.Name = fmt.Sprintf("%s-%03d", s.name, s.started)
	o.Journal = filepath.Join(s.w.dir, o.Name+".journal")
	c, err := spawn(o, s.w.dir)
	s.current = c
	return c, err
}

// child is the process that is there, or nil.
func (s *slot) child() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// kill ends the process that is there, without a warning.
func (s *slot) kill() {
	if c := s.child(); c != nil {
		c.kill()
	}
}

func (s *slot) end() {
	if c := s.child(); c != nil {
		c.end()
	}
}

// hold lets nobody join until the slot is released.
func (s *slot) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held++; s.held == 1 {
		s.freed = make(chan struct{})
	}
}

func (s *slot) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held--; s.held == 0 {
		close(s.freed)
	}
}

func (s *slot) awaitRelease(ctx context.Context) bool {
	for {
		s.mu.Lock()
		held, freed := s.held, s.freed
		s.mu.Unlock()
		if held == 0 {
			return ctx.Err() == nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}
