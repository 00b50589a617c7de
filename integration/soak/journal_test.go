//go:build unix

package soak

import (
	"fmt"
	"os"
	"strings"

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
