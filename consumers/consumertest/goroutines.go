package consumertest

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"
)

const label = "consumertest"

// marked labels the calling goroutine until unmark is called. The label is passed on to every
// goroutine that is started, by whomever, so those of one case are told from those of the cases
// beside it, of the broker and of a client that was there before.
func (e *exam) marked() (ctx context.Context, unmark func()) {
	ctx = pprof.WithLabels(context.Background(), pprof.Labels(label, e.Name()))
	pprof.SetGoroutineLabels(ctx)
	return ctx, func() { pprof.SetGoroutineLabels(context.Background()) }
}

// noneMarked waits until no goroutine has the case's label.
func (e *exam) noneMarked() {
	e.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		stacks := e.markedStacks()
		if len(stacks) == 0 {
			return
		}
		if time.Now().After(limit) {
			e.failf("%d kinds of goroutines are left:\n%s", len(stacks), strings.Join(stacks, "\n\n"))
		}
	}
}

func (e *exam) markedStacks() []string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		e.failf("the goroutines cannot be listed: %v", err)
	}
	var found []string
	mark := fmt.Sprintf("%q:%q", label, e.Name())
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, mark) {
			found = append(found, stack)
		}
	}
	return found
}
