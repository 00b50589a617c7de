package consumertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
)

// settings are those of most cases.
func settings() Settings {
	return Settings{
		Policy: consumers.Policy{MaxAttempts: 3, MinDelay: 10 * time.Millisecond, MaxDelay: 20 * time.Millisecond},
		Drain:  patience,
	}
}

// running is a Run under way.
type running struct {
	*exam
	Consumer
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func (e *exam) open(p dedup.Processor, s Settings) Consumer {
	e.Helper()
	c, err := e.Open(p, s)
	if err != nil {
		e.failf("no consumer: %v", err)
	}
	e.demand(e.T, Freezing, c.Freeze == nil || c.Thaw == nil)
	e.demand(e.T, Killing, c.Kill == nil)
	return c
}

// start makes a consumer and runs it.
func (e *exam) start(p dedup.Processor, s Settings) *running {
	e.Helper()
	return e.run(e.open(p, s), context.Background())
}

func (e *exam) run(c Consumer, ctx context.Context) *running {
	ctx, cancel := context.WithCancel(ctx)
	r := &running{exam: e, Consumer: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = c.Run(ctx)
	}()
	e.Cleanup(func() {
		cancel()
		select {
		case <-r.done:
		case <-time.After(2 * patience):
			e.Errorf("Run does not return")
		}
	})
	return r
}

// wait returns what Run returned.
func (r *running) wait(limit time.Duration) error {
	r.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(limit):
		r.failf("Run has not returned after %s", limit)
		panic("unreachable")
	}
}

// stop ends Run and demands that it ends clean.
func (r *running) stop() {
	r.Helper()
	r.cancel()
	if err := r.wait(patience); err != nil {
		r.failf("Run returned %v after its context had ended, with nothing left to do", err)
	}
}

// dies demands that Run returns the error, and not for want of cleanness.
func (r *running) dies(want error) {
	r.Helper()
	err := r.wait(patience)
	if err == nil {
		r.failf("Run returned nil")
	}
	if want != nil && !errors.Is(err, want) {
		r.failf("Run returned %v, without the error %q", err, want)
	}
}

// unclean demands that Run says it left something undone.
func (r *running) unclean(limit time.Duration) {
	r.Helper()
	if err := r.wait(limit); !errors.Is(err, r.NotClean) {
		r.failf("Run returned %v, which does not say %q", err, r.NotClean)
	}
}

// runs demands that Run has not returned.
func (r *running) runs() {
	r.Helper()
	select {
	case <-r.done:
		r.failf("Run has returned: %v", r.err)
	default:
	}
}

// publish stores messages with the given bodies and one key.
func (e *exam) publish(bodies ...string) {
	var ms []Message
	for _, body := range bodies {
		ms = append(ms, Message{Key: []byte("k"), Body: []byte(body)})
	}
	e.Publish(ms...)
}

func numbered(n int) []string {
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = fmt.Sprint("m", i)
	}
	return bodies
}

// next returns the next call to the processor.
func (e *exam) next(a *actor) *call {
	e.Helper()
	select {
	case c := <-a.calls:
		return c
	case <-time.After(patience):
		e.failf("nothing is handed to the processor")
		panic("unreachable")
	}
}

// given returns the next call, which must be for that message, and no burial.
func (e *exam) given(a *actor, body string) *call {
	e.Helper()
	c := e.next(a)
	if string(c.Body) != body || c.burial {
		e.failf("%s where %q is to be processed", c, body)
	}
	return c
}

// buries returns the next call, which must be the burial of that message.
func (e *exam) buries(a *actor, body string) *call {
	e.Helper()
	c := e.next(a)
	if string(c.Body) != body || !c.burial {
		e.failf("%s where %q is to be buried", c, body)
	}
	return c
}

func (c *call) String() string {
	what := "processed"
	if c.burial {
		what = "buried"
	}
	return fmt.Sprintf("%q is being %s in attempt %d", c.Body, what, c.Attempt)
}

// silent demands that nothing is handed over for a while.
func (e *exam) silent(a *actor) {
	e.Helper()
	select {
	case c := <-a.calls:
		e.failf("%s although nothing should be handed over", c)
	case <-time.After(e.Grace):
	}
}

// left demands that so many messages are not acknowledged at this moment.
func (e *exam) left(want int) {
	e.Helper()
	if got := e.Left(); got != want {
		e.failf("%d messages are left at the broker where %d is right", got, want)
	}
}

// leftStays demands the same, and that nothing changes for a while.
func (e *exam) leftStays(want int) {
	e.Helper()
	time.Sleep(e.Grace)
	e.left(want)
}

// leftBecomes waits until so many messages are not acknowledged.
func (e *exam) leftBecomes(want int) {
	e.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got := e.Left()
		if got == want {
			return
		}
		if time.Now().After(limit) {
			e.failf("%d messages are left at the broker where it should become %d", got, want)
		}
	}
}

// settle answers everything with applied until nothing is left, and returns how often each message was
// handed over.
func (e *exam) settle(a *actor) map[string]int {
	e.Helper()
	seen := map[string]int{}
	for limit := time.Now().Add(patience); e.Left() > 0; {
		select {
		case c := <-a.calls:
			seen[string(c.Body)]++
			c.answer(applied)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(limit) {
			e.failf("%d messages are left at the broker after %s; handed over were %v", e.Left(), patience, seen)
		}
	}
	return seen
}
