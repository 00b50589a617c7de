package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// contest runs variants in turn, again and again, so that whatever the machine does
// beside it hits all of them.
type contest struct {
	b     *testing.B
	names []string
	runs  map[string]func() (int, time.Duration) // how many messages it did, in which time
	rates map[string][]float64
}

func newContest(b *testing.B) *contest {
	return &contest{b: b, runs: map[string]func() (int, time.Duration){}, rates: map[string][]float64{}}
}

func (c *contest) add(name string, run func() (int, time.Duration)) {
	c.names = append(c.names, name)
	c.runs[name] = run
}

// run makes one repetition per iteration of the benchmark, after one that is not counted.
func (c *contest) run() {
	c.b.Helper()
	for _, name := range c.names {
		c.runs[name]()
	}
	for c.b.Loop() {
		for _, name := range c.names {
			n, took := c.runs[name]()
			c.rates[name] = append(c.rates[name], float64(n)/took.Seconds())
		}
	}
	for _, name := range c.names {
		c.b.ReportMetric(median(c.rates[name]), name+"/s")
	}
	c.b.ReportMetric(0, "ns/op")
}

// ratio reports how many times the rate of the second the first has: the median over the
// repetitions of the ratio inside each.
func (c *contest) ratio(goal, of, to string) {
	ratios := make([]float64, len(c.rates[of]))
	for i := range ratios {
		ratios[i] = c.rates[of][i] / c.rates[to][i]
	}
	c.b.ReportMetric(median(ratios), fmt.Sprintf("%s:%s÷%s", goal, of, to))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
