//go:build unix

package soak

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// tally counts what was done.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	order  []string
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (t *tally) add(what string) { t.addN(what, 1) }

func (t *tally) addN(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.order, what) {
		t.order = append(t.order, what)
	}
	t.counts[what] += n
}

func (t *tally) of(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[what]
}

// row is a line of the verdict's table.
type row struct {
	name  string
	value any
}

func table(rows []row) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		_, _ = fmt.Fprintf(w, "  %s\t%v\n", r.name, r.value) // to memory
	}
	_ = w.Flush()
	return b.String()
}
