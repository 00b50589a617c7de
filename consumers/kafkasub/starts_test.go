package kafkasub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/store"
)

// After a death the first messages of every partition go one at a time in the whole process, each
// with its start counted; then all is as usual.
func TestAfterADeathMessagesGoOneAtATime(t *testing.T) {
	t.Parallel()
	const prefetch, every = 10, 60
	b := startBroker(t, 2)
	produce(t, b, 0, numbered("a", every)...)
	produce(t, b, 1, numbered("b", every)...)
	count := newTallies()
	count.die(2)
	kept := newMarks()
	var suspects atomic.Int64
	p := newFake(nil)
	p.answer = func(ctx context.Context, m dedup.Message) dedup.Result {
		count.mu.Lock()
		started := count.starts[m.Position] > 0
		count.mu.Unlock()
		if started {
			if n := suspects.Add(1); n > 1 {
				t.Errorf("%d messages under suspicion run at the same time", n)
			}
			time.Sleep(time.Millisecond)
			suspects.Add(-1)
		}
		return kept.apply(ctx, m)
	}
	for i := range int64(15) { // done by whoever died, and never committed
		kept.applied[dedup.Position{Broker: "kafka", Log: topic, Partition: 0, Offset: i, Time: timeOf(t, b, 0, i)}] = true
	}
	book, log := newLogBook(t)
	r := run(t, newConsumer(t, groupConfig(b), counting{each{p}, count}, log, kafkasub.WithPrefetch(prefetch)))
	untilCommitted(t, b, 0, every)
	untilCommitted(t, b, 1, every)
	r.stop(t)
	if !book.has("has not left the partition in order", "partition=1") {
		t.Error("nobody was told")
	}
	count.mu.Lock()
	defer count.mu.Unlock()
	count.isEmpty(t)
	var want []string
	for i := range 15 + prefetch {
		want = append(want, fmt.Sprintf("start a%d", i), fmt.Sprintf("forget a%d", i))
	}
	got := slices.DeleteFunc(slices.Clone(count.log), func(s string) bool { return strings.Contains(s, " b") })
	if !slices.Equal(got, want) {
		t.Errorf("the counter was asked\n%q, want\n%q", got, want)
	}
	if len(count.log)-len(got) != 2*prefetch {
		t.Errorf("the counter was asked %d times of the other partition, want %d", len(count.log)-len(got), 2*prefetch)
	}
}

// timeOf returns the time that the broker keeps with a record.
func timeOf(t *testing.T, b *servers.Kfake, partition int32, offset int64) time.Time {
	t.Helper()
	return recordAt(t, b, partition, offset).Timestamp.UTC()
}

func TestFirstTryToEnterThatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail func(commit func()) error
		want []string
	}{
		"nothing came of it": {func(func()) error { return errors.New("down") }, nil},
		// It may have been a death that it has covered up.
		"its answer was lost": {func(commit func()) error { commit(); return errors.New("cut") }, []string{"start m0", "forget m0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			produce(t, b, 0, "m0")
			count := newTallies()
			count.enterErr = c.fail
			r := run(t, newConsumer(t, groupConfig(b), counting{each{newFake(always)}, count}))
			untilCommitted(t, b, 0, 1)
			r.stop(t)
			count.wants(t, c.want...)
			if count.owners[0] != "" {
				t.Errorf("%q has not left", count.owners[0])
			}
		})
	}
}

func TestMessageThatWasBegunTooOftenIsBuriedBeforeItRuns(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]kafkasub.Option{"one lane": nil, "lanes": {kafkasub.WithConcurrency(3)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, 1)
			produce(t, b, 0, numbered("m", 8)...)
			count := newTallies()
			count.die(1)
			at := dedup.Position{Broker: "kafka", Log: topic, Offset: 2, Time: timeOf(t, b, 0, 2)}
			count.starts[at] = 3
			p := newFake(failOn("m5", failed(store.FaultHandler, "poison")))
			var reason atomic.Value
			p.bury = func(_ context.Context, m dedup.Message, err error) dedup.Result {
				if string(m.Body) == "m2" {
					reason.Store(err.Error())
				}
				return dedup.Result{Outcome: dedup.Buried}
			}
			r := run(t, newConsumer(t, groupConfig(b), counting{each{p}, count}, append(opts, fastPolicy(5))...))
			untilCommitted(t, b, 0, 8)
			r.stop(t)
			if got := p.attempts("m2"); len(got) > 0 || len(p.buried) != 2 {
				t.Errorf("attempts %v, buried %v", got, bodies(p.buried))
			}
			if got, _ := reason.Load().(string); !strings.Contains(got, "the process may have died of it 3 times") {
				t.Errorf("buried for %q", got)
			}
			// What fails does not kill: one start is enough, and its attempts are its own.
			if got := p.attempts("m5"); !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
				t.Errorf("attempts of the one that fails: %v", got)
			}
			count.mu.Lock()
			defer count.mu.Unlock()
			count.isEmpty(t)
			if n := len(slices.DeleteFunc(slices.Clone(count.log), func(s string) bool { return s != "start m5" })); n != 1 {
				t.Errorf("%d starts of the one that fails", n)
			}
		})
	}
}

// Whatever the result is, it takes the start back, and does so before another message is begun that may
// end the process.
func TestStartsAreTakenBackBeforeAnotherMessageIsBegun(t *testing.T) {
	t.Parallel()
	results := map[string]dedup.Result{
		"0": failed(store.FaultBusy, "busy"), "1": failed(store.FaultOutage, "down"), "2": failed(store.FaultConflict, "conflict"),
		"3": failed(store.FaultHandler, "poison"), "4": {Outcome: dedup.Unknown, Err: errors.New("cut")}, "5": failed(store.FaultHandler, "poison"),
	}
	b := startBroker(t, 2)
	produce(t, b, 0, numbered("a", len(results))...)
	produce(t, b, 1, numbered("b", len(results))...)
	count := newTallies()
	count.die(2)
	count.surviving = func() { time.Sleep(time.Millisecond) } // room for another one to begin
	var mu sync.Mutex
	tries := map[string]int{}
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		mu.Lock()
		defer mu.Unlock()
		if tries[string(m.Body)]++; tries[string(m.Body)] > 5 {
			return applied
		}
		return results[string(m.Body[1:])]
	})
	r := run(t, newConsumer(t, groupConfig(b), counting{each{p}, count}, fastPolicy(10)))
	untilCommitted(t, b, 0, int64(len(results)))
	untilCommitted(t, b, 1, int64(len(results)))
	r.stop(t)
	if len(p.buried) > 0 {
		t.Errorf("buried %v", bodies(p.buried))
	}
	count.mu.Lock()
	defer count.mu.Unlock()
	count.isEmpty(t)
	begun, starts := "", map[string]int{}
	for i, line := range count.log {
		act, message, _ := strings.Cut(line, " ")
		switch {
		case act == "start" && begun != "":
			t.Errorf("%s is begun before the start of %s is taken back: %q", message, begun, count.log[:i+1])
		case act == "start":
			begun = message
			starts[message]++
		case begun == message && (act == "survive" || act == "forget"):
			begun = ""
		}
	}
	// One that has failed has run and not killed, and is counted once; the others may not have run.
	for message, n := range starts {
		if want := map[bool]int{true: 1, false: 6}[results[message[1:]].Fault == store.FaultHandler]; n != want {
			t.Errorf("%d starts of %s, want %d", n, message, want)
		}
	}
}

func TestMessageThatWasBegunTooOftenStopsAConsumerWithoutDeadLetters(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m0")
	count := newTallies()
	count.die(1)
	count.starts[dedup.Position{Broker: "kafka", Log: topic, Time: timeOf(t, b, 0, 0)}] = 3
	r := run(t, newConsumer(t, groupConfig(b), counting{each{newFake(always)}, count}, kafkasub.WithoutDeadLetters()))
	if err := r.wait(t); err == nil || !strings.Contains(err.Error(), "may have died of it 3 times") {
		t.Errorf("Run = %v", err)
	}
}

// Nor does it look deadly: where it is the answer that is lost, the start counts once.
func TestMessageWhoseStartCannotBeCountedDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, answerIsLost := range map[string]bool{"nothing came of it": false, "its answer was lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const last = 6 // the one that is answered; more than a message is granted
			b := startBroker(t, 1)
			produce(t, b, 0, "m0")
			count := newTallies()
			count.die(1)
			var tries atomic.Int64
			count.startErr = func(commit func()) error {
				if tries.Add(1) == last {
					return nil
				}
				if answerIsLost {
					commit()
				}
				return errors.New("down")
			}
			p := newFake(func(context.Context, dedup.Message) dedup.Result {
				if tries.Load() != last {
					t.Error("it ran without its start being counted")
				}
				return applied
			})
			r := run(t, newConsumer(t, groupConfig(b), counting{each{p}, count}))
			untilCommitted(t, b, 0, 1)
			r.stop(t)
			if got := p.attempts("m0"); !slices.Equal(got, []int{1}) || len(p.buried) > 0 {
				t.Errorf("attempts %v, buried %v", got, bodies(p.buried))
			}
		})
	}
}

// A message that is begun alone and hangs does not hold up the messages that are to go alone
// after the next rebalance.
func TestHungHandlerDoesNotHoldUpOthersThatGoAlone(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 2)
	produce(t, b, 0, "hang")
	count := newTallies()
	count.die(1)
	goOn, gone := make(chan struct{}), make(chan struct{})
	var hangs atomic.Bool
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "hang" && hangs.CompareAndSwap(false, true) {
			<-goOn
			defer close(gone)
		}
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), counting{each{p}, count}, kafkasub.WithDrain(50*time.Millisecond)))
	p.untilCalls(t, 1)
	other := joinOther(t, b)
	untilCommitted(t, b, 0, 1) // in the next generation, beside the one that hangs
	close(goOn)
	<-gone
	other.stop(t)
	r.cancel()
	_ = r.wait(t)
}

// A handler that hangs and is left behind is no orderly end.
func TestHungHandlerIsAnOwnerThatHasNotLeft(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 2)
	produce(t, b, 0, "hang", "m1")
	produce(t, b, 1, "other")
	count := newTallies()
	goOn, gone := make(chan struct{}), make(chan struct{})
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "hang" {
			<-goOn
			defer close(gone)
		}
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), counting{each{p}, count}, kafkasub.WithDrain(50*time.Millisecond)))
	p.untilCalls(t, 2)
	untilCommitted(t, b, 1, 1)
	r.cancel()
	if err := r.wait(t); !errors.Is(err, kafkasub.ErrNotClean) {
		t.Errorf("Run = %v", err)
	}
	count.mu.Lock()
	if count.owners[0] == "" || count.owners[1] != "" {
		t.Errorf("owners %v, want that of partition 0 to be there yet", count.owners)
	}
	count.mu.Unlock()
	close(goOn)
	<-gone
	next := newFake(always)
	r = run(t, newConsumer(t, groupConfig(b), counting{each{next}, count}))
	untilCommitted(t, b, 0, 2)
	r.stop(t)
	count.wants(t, "start hang", "forget hang", "start m1", "forget m1")
}
