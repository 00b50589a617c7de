//go:build unix

package soak

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/semel-dev/semel/dedup"
)

// ledger reads the journals of a group's children.
type ledger struct {
	dir, group string

	mu     sync.Mutex
	read   map[string]int64          // bytes of each file
	open   map[string]map[string]int // of each child: the handlers that run, by id
	deaths map[string]int            // of each id: the deaths of processes that had it in a handler
	places map[string]int            // results at each place, of whatever kind
	front  map[int]int64             // of each lane whose position is kept: the furthest one known
	totals totals
}

// totals are counts over all journals.
type totals struct {
	Deliveries, Redeliveries int
	Applied, Duplicates      int
	Buried, Parked           int
	Failed, Unknown, Twins   int
	Handlers, Outages, Busy  int
	Serialisation, Deadlocks int
}

func newLedger(dir, group string) *ledger {
	return &ledger{dir: dir, group: group, read: map[string]int64{}, open: map[string]map[string]int{}, deaths: map[string]int{}, places: map[string]int{}, front: map[int]int64{}}
}

func (l *ledger) files() ([]string, error) {
	return filepath.Glob(filepath.Join(l.dir, l.group+"-*.journal"))
}

// look reads what is new and returns the sums.
func (l *ledger) look() (totals, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, err := l.files()
	if err != nil {
		return totals{}, err
	}
	for _, f := range files {
		if err := l.follow(f); err != nil {
			return totals{}, err
		}
	}
	l.totals.Redeliveries = l.totals.Deliveries - len(l.places)
	return l.totals, nil
}

func (l *ledger) follow(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(l.read[path], io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	l.read[path] += int64(len(text))
	child := strings.TrimSuffix(filepath.Base(path), ".journal")
	for line := range strings.Lines(string(text)) {
		l.add(child, strings.Fields(line))
	}
	return nil
}

func (l *ledger) add(child string, f []string) {
	switch {
	case len(f) == 2 && f[0] == "begin":
		if l.open[child] == nil {
			l.open[child] = map[string]int{}
		}
		l.open[child][f[1]]++
		l.totals.Handlers++
	case len(f) == 3 && f[0] == "end":
		if l.open[child][f[1]]--; l.open[child][f[1]] <= 0 {
			delete(l.open[child], f[1])
		}
		switch f[2] {
		case "40001":
			l.totals.Serialisation++
		case "40P01":
			l.totals.Deadlocks++
		}
	case len(f) == 2 && f[0] == "twin":
		l.totals.Twins++
	case len(f) == 5 && f[0] == "result":
		l.addResult(f[1], f[2], f[3])
	}
}

func (l *ledger) addResult(place, outcome, fault string) {
	switch fault {
	case "outage":
		l.totals.Outages++
	case "busy":
		l.totals.Busy++
	}
	switch outcome {
	case dedup.Applied.String():
		l.totals.Applied++
	case dedup.Duplicate.String():
		l.totals.Duplicates++
	case dedup.Buried.String():
		l.totals.Buried++
	case dedup.Parked.String():
		l.totals.Parked++
	case dedup.Failed.String():
		l.totals.Failed++
		return
	case dedup.Unknown.String():
		l.totals.Unknown++
		return
	}
	l.totals.Deliveries++
	l.places[place]++
}

// running is how many handlers a child had begun and not ended. After its death that is what
// it died in.
func (l *ledger) running(child string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open[child])
}

func (l *ledger) conflicts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals.Serialisation
}

// bury notes a child's death and returns how many handlers it died in.
func (l *ledger) bury(child string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.open[child] {
		l.deaths[id]++
	}
	return len(l.open[child])
}

func (l *ledger) deathsWith(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deaths[id]
}

// distinct is how many places of the log have been settled at least once.
func (l *ledger) distinct() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.front) == 0 {
		return len(l.places)
	}
	for _, offset := range l.front {
		n += int(offset) + 1
	}
	return n
}

// advance notes the position of a lane that is handled in its order.
func (l *ledger) advance(lane int, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.front[lane]; !ok || offset > at {
		l.front[lane] = offset
	}
}

// again is how many results were for places that had been settled before.
func (l *ledger) again() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals.Deliveries - len(l.places)
}

// history is every line about an id, for the person who looks for the cause.
func (l *ledger) history(id string) (lines []string) {
	files, _ := l.files()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, id) {
				lines = append(lines, filepath.Base(f)+": "+strings.TrimSpace(line))
			}
		}
	}
	return lines
}
