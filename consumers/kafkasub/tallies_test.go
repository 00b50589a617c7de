package kafkasub_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// tallies is what a store counts of attempts, and what was asked of it.
type tallies struct {
	mu            sync.Mutex
	spent, starts map[dedup.Position]int
	starter       map[dedup.Position]string // whose the last start is
	owners        map[int]string            // of partitions; empty after Leave
	entered       map[int]bool
	startErr      func(commit func()) error
	enterErr      func(commit func()) error
	surviving     func() // what Survive does before it has done anything
	spendErr      error
	log           []string
}

func newTallies() *tallies {
	return &tallies{spent: map[dedup.Position]int{}, starts: map[dedup.Position]int{}, starter: map[dedup.Position]string{}, owners: map[int]string{}, entered: map[int]bool{}}
}

func (c *tallies) Counts() bool { return true }

func (c *tallies) asked(what string, m dedup.Message) {
	c.log = append(c.log, what+" "+string(m.Body))
}

func (c *tallies) Spend(_ context.Context, m dedup.Message) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked("spend", m)
	if c.spendErr != nil {
		return 0, c.spendErr
	}
	delete(c.starts, m.Position)
	delete(c.starter, m.Position)
	c.spent[m.Position]++
	return c.spent[m.Position], nil
}

func (c *tallies) Start(_ context.Context, m dedup.Message, starter string) (store.Tally, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked("start", m)
	commit := func() {
		if c.starter[m.Position] != starter {
			c.starts[m.Position]++
		}
		c.starter[m.Position] = starter
	}
	if c.startErr != nil {
		if err := c.startErr(commit); err != nil {
			return store.Tally{}, err
		}
	}
	commit()
	return store.Tally{Spent: c.spent[m.Position], Starts: c.starts[m.Position]}, nil
}

func (c *tallies) Survive(_ context.Context, m dedup.Message, starter string) error {
	if c.surviving != nil {
		c.surviving()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked("survive", m)
	if c.starter[m.Position] == starter {
		c.starts[m.Position]--
		delete(c.starter, m.Position)
	}
	return nil
}

func (c *tallies) Forget(_ context.Context, m dedup.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked("forget", m)
	delete(c.spent, m.Position)
	delete(c.starts, m.Position)
	delete(c.starter, m.Position)
	return nil
}

func (c *tallies) Enter(_ context.Context, _ string, partition int, owner string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fail := c.enterErr; fail != nil {
		c.enterErr = nil
		return false, fail(func() { c.owners[partition], c.entered[partition] = owner, true })
	}
	former, entered := c.owners[partition], c.entered[partition]
	c.owners[partition], c.entered[partition] = owner, true
	return !entered || former == "" || former == owner, nil
}

func (c *tallies) Leave(_ context.Context, _ string, partition int, owner string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners[partition] == owner {
		c.owners[partition] = ""
	}
	return nil
}

// die makes it look as if the owner of the partitions had died.
func (c *tallies) die(partitions int) {
	for p := range partitions {
		c.owners[p], c.entered[p] = "somebody who died", true
	}
}

// wants compares what was asked of the counter, and that nothing is left.
func (c *tallies) wants(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.log, want) {
		t.Errorf("the counter was asked\n%q, want\n%q", c.log, want)
	}
	c.isEmpty(t)
}

func (c *tallies) isEmpty(t *testing.T) {
	t.Helper()
	if len(c.spent) > 0 || len(c.starts) > 0 {
		t.Errorf("counts are left: %v and %v", c.spent, c.starts)
	}
}

type counting struct {
	each
	*tallies
}

var _ dedup.Counter = counting{}
