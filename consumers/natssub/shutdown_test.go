package natssub_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// blocker is a processor whose handlers tell that they run and wait to be told to end.
func blocker() (p *processor, running <-chan string, finish chan<- struct{}) {
	begun, end := make(chan string, 100), make(chan struct{})
	return &processor{process: func(ctx context.Context, m dedup.Message) dedup.Result {
		begun <- string(m.Body)
		select {
		case <-end:
			return applied
		case <-ctx.Done():
			return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultCanceled, Err: ctx.Err()}
		}
	}}, begun, end
}

// The ack wait is 30 seconds in these tests: what another process gets sooner was given back.

func TestShutdownGivesBackWhatHasNotBegunAndWaitsForWhatHas(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(10)...)
	p, running, finish := blocker()
	r := consume(t, js, p, natssub.WithConcurrency(1))
	receive(t, running)
	eventually(t, "all fetched", func() bool { return info(t, js).Delivered.Consumer == 10 })
	r.cancel()

	other := &processor{}
	o := consume(t, js, other)
	eventually(t, "the others given back", func() bool { return len(other.got()) == 9 })
	select {
	case <-r.done:
		t.Fatal("Run returned while a handler was running")
	default:
	}
	finish <- struct{}{}
	if err := r.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
	settled(t, js)
	o.stop()
	if got := other.got(); slices.Contains(got, "1") {
		t.Errorf("the running message was given back: %v", got)
	}
}

func TestShutdownCancelsAHandlerThatTakesTooLongAndGivesItsMessageBack(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "slow")
	p, running, _ := blocker()
	r := consume(t, js, p, natssub.WithDrain(50*time.Millisecond))
	receive(t, running)
	r.cancel()
	if err := r.wait(); !errors.Is(err, natssub.ErrNotClean) || !strings.Contains(err.Error(), "were cancelled") {
		t.Errorf("Run: %v", err)
	}
	other := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if m.Attempt != 1 {
			t.Errorf("attempt %d: the cancelled run was counted", m.Attempt)
		}
		return applied
	}}
	o := consume(t, js, other)
	settled(t, js)
	o.stop()
}

func TestShutdownDoesNotWaitForEverForAHandlerThatHangs(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(3)...)
	running, finish, returned := make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		running <- struct{}{}
		<-finish
		close(returned)
		return applied
	}}
	r := consume(t, js, p, natssub.WithConcurrency(1), natssub.WithDrain(10*time.Millisecond))
	receive(t, running)
	begun := time.Now()
	r.cancel()
	if err := r.wait(); !errors.Is(err, natssub.ErrNotClean) || !strings.Contains(err.Error(), "did not return") {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Run returned after %s", took)
	}
	close(finish)
	<-returned
}

func TestWhatCannotBeGivenBackIsSaid(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	js := b.connect()
	makeStream(t, js)
	publish(t, js, numbered(5)...)
	p, running, _ := blocker()
	r := consume(t, js, p, natssub.WithConcurrency(1), natssub.WithDrain(0), natssub.WithAckLimit(100*time.Millisecond))
	receive(t, running)
	b.stop()
	r.cancel()
	if err := r.wait(); !errors.Is(err, natssub.ErrNotClean) || !strings.Contains(err.Error(), "may not know of 5 messages") {
		t.Errorf("Run: %v", err)
	}
}

func TestShutdownDoesNotWaitForARetry(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]natssub.Option{{natssub.WithOrder()}, nil} {
		js := startBroker(t).connect()
		makeStream(t, js)
		publish(t, js, "a", "b")
		p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
			return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultHandler, Err: dedup.RetryAfter(time.Hour, errors.New("bad"))}
		}}
		r := consume(t, js, p, opts...)
		eventually(t, "a failure", func() bool { return len(p.got()) > 0 })
		r.stop()
	}
}

func TestAnIdleConsumerStopsAtOnce(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	r := consume(t, js, &processor{})
	eventually(t, "a request at the server", func() bool { return info(t, js).NumWaiting > 0 })
	begun := time.Now()
	r.stop()
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %s", took)
	}
	if i := info(t, js); i.NumWaiting != 0 {
		t.Errorf("%d requests left at the server", i.NumWaiting)
	}
}

func TestStoppingOverAndOverLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	const total = 2000
	publish(t, js, numbered(total)...)
	seen := map[string]int{}
	for len(seen) < total {
		p := &processor{}
		r := consume(t, js, p, natssub.WithConcurrency(2))
		eventually(t, "some messages", func() bool { return len(p.got()) >= 50 || len(seen)+len(p.got()) >= total })
		r.stop()
		for _, body := range p.got() {
			seen[body]++
		}
	}
	// Anything that was lost between the server and the consumers would be pending for the
	// whole ack wait.
	settled(t, js)
	for body, n := range seen {
		if n != 1 {
			t.Errorf("message %s processed %d times", body, n)
		}
	}
}

func TestAHandlerThatEndsItsGoroutineEndsRun(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	r := consume(t, js, &processor{process: func(context.Context, dedup.Message) dedup.Result {
		runtime.Goexit()
		return applied
	}})
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Errorf("Run: %v", err)
	}
}

func TestRunEndsWithAnErrorThatNeedsAPerson(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	p := &processor{process: func(context.Context, dedup.Message) dedup.Result {
		return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultSetup, Err: errNoTables}
	}}
	r := consume(t, js, p)
	if err := r.wait(); !errors.Is(err, errNoTables) || errors.Is(err, natssub.ErrNotClean) {
		t.Errorf("Run: %v", err)
	}
	other := &processor{}
	o := consume(t, js, other)
	settled(t, js)
	o.stop()
}

var errNoTables = errors.New("tables are missing")

func TestAProcessorThatBreaksItsContractEndsRun(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, "a")
	r := consume(t, js, &mute{}, natssub.WithBatch(1, 0))
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), "0 results for 1 messages") {
		t.Errorf("Run: %v", err)
	}
}

// mute answers nothing.
type mute struct{ processor }

func (*mute) ProcessBatch(context.Context, []dedup.Message) []dedup.Result { return nil }

// The server would deliver what is given back to the request that is still open, and what is given
// back again, until its count of deliveries looks like a message that ends processes.
func TestWhatIsGivenBackAtTheEndDoesNotComeBackToTheSameProcess(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(20)...)
	const rounds = 10
	for range rounds {
		r := consume(t, js, &processor{process: func(context.Context, dedup.Message) dedup.Result {
			return dedup.Result{Outcome: dedup.Failed, Fault: store.FaultSetup, Err: errNoTables}
		}})
		if err := r.wait(); !errors.Is(err, errNoTables) || errors.Is(err, natssub.ErrNotClean) {
			t.Errorf("Run: %v", err)
		}
	}
	c, err := js.Consumer(t.Context(), stream, durable)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(20)
	if err != nil {
		t.Fatal(err)
	}
	for msg := range batch.Messages() {
		meta, err := msg.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if meta.NumDelivered > rounds+1 {
			t.Errorf("message %s was delivered %d times in %d runs", msg.Data(), meta.NumDelivered, rounds)
		}
	}
}
