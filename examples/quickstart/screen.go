package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// screen shows what happens. On a terminal its last line is rewritten all the time; anywhere
// else it is printed every few seconds.
type screen struct {
	to     io.Writer
	live   bool
	began  time.Time
	shown  time.Time // when the status was last printed
	status string
}

func newScreen(to io.Writer) *screen {
	s := &screen{to: to, began: time.Now()}
	if f, ok := to.(*os.File); ok {
		info, err := f.Stat()
		s.live = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return s
}

const eraseLine = "\r\x1b[K"

// say prints a line that stays.
func (s *screen) say(format string, args ...any) {
	line := fmt.Sprintf("%6.1fs  ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, args...)
	if s.live {
		line = eraseLine + line
	}
	fmt.Fprintln(s.to, line)
	if s.live && s.status != "" {
		fmt.Fprint(s.to, s.status)
	}
}

const plainPace = 2 * time.Second

// progress shows how far it is: done of all, and a few words.
func (s *screen) progress(done, all int, words string) {
	done = min(done, all)
	if s.live {
		s.status = fmt.Sprintf("%6.1fs  %s %s", time.Since(s.began).Seconds(), bar(done, all, 24), words)
		fmt.Fprint(s.to, eraseLine+s.status)
		return
	}
	if time.Since(s.shown) < plainPace {
		return
	}
	s.shown = time.Now()
	s.say("%3d %%  %s", 100*done/max(all, 1), words)
}

// end takes the status away.
func (s *screen) end() {
	if s.live && s.status != "" {
		fmt.Fprint(s.to, eraseLine)
	}
	s.status = ""
}

func bar(done, all, width int) string {
	n := width * done / max(all, 1)
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", width-n) + "]"
}
