//go:build unix

package soak

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/semel-dev/semel/dedup"
)

// A journal is what one child saw and did, one line at a time. It is written without a buffer:
// what a process has written before it is killed, the operating system keeps.
//
//	begin ID                           a handler begins
//	end ID ok | SQLSTATE | error       it has ended
//	result LANE/OFFSET OUTCOME FAULT ID
//	twin ID                            a second time in one batch
type journal struct{ file *os.File }

func openJournal(path string) (journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return journal{f}, err
}

// note writes a line. A journal that cannot be written makes the run worthless.
func (j journal) note(format string, args ...any) { j.write(fmt.Appendf(nil, format+"\n", args...)) }

func (j journal) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	if _, err := j.file.Write(lines); err != nil {
		panic(err)
	}
}

func (j journal) begin(id string) { j.note("begin %s", id) }

func (j journal) end(id string, err error) {
	word := "ok"
	if err != nil {
		word = "error"
		if state := sqlState(err); state != "" {
			word = state
		}
	}
	j.note("end %s %s", id, word)
}

func (j journal) results(ms []dedup.Message, rs []dedup.Result) {
	var lines []byte
	for i, r := range rs {
		p := ms[i].Position
		fault := "-"
		if r.Fault != 0 {
			fault = strings.ReplaceAll(r.Fault.String(), " ", "-")
		}
		lines = fmt.Appendf(lines, "result %d/%d %s %s %s\n", p.Partition, p.Offset, r.Outcome, fault, idOf(ms[i]))
	}
	j.write(lines)
}

func idOf(m dedup.Message) string {
	if id, ok := m.Header(idHeader); ok {
		return string(id)
	}
	return "-"
}

// ledger reads the journals of all children.
type ledger struct {
	dir string

	mu     sync.Mutex
	read   map[string]int64           // bytes of each file
	open   map[string]map[string]bool // of each child: the handlers that run
	deaths map[string]int             // of each id: the deaths of processes that had it in a handler
	places map[string]int             // results at each place, of whatever kind
	totals totals
}

// totals are counts over all journals.
type totals struct {
	Deliveries, Redeliveries    int
	Applied, Duplicates, Buried int
	Failed, Unknown, Twins      int
	Handlers, Outages, Busy     int
	Serialisation, Deadlocks    int
}

func newLedger(dir string) *ledger {
	return &ledger{dir: dir, read: map[string]int64{}, open: map[string]map[string]bool{}, deaths: map[string]int{}, places: map[string]int{}}
}

// look reads what is new and returns the sums.
func (l *ledger) look() (totals, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, err := filepath.Glob(filepath.Join(l.dir, "*.journal"))
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
			l.open[child] = map[string]bool{}
		}
		l.open[child][f[1]] = true
		l.totals.Handlers++
	case len(f) == 3 && f[0] == "end":
		delete(l.open[child], f[1])
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
func (l *ledger) distinct() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.places)
}

// again is how many results were for places that had been settled before.
func (l *ledger) again() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals.Deliveries - len(l.places)
}

// history is every line about an id, for the person who looks for the cause.
func (l *ledger) history(id string) (lines []string) {
	files, _ := filepath.Glob(filepath.Join(l.dir, "*.journal"))
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
