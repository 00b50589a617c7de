package kafkasub_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/store"
)

func TestAttemptsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit int
		died  bool // the first process; the next one knows the number before the message runs
		want  []int
	}{{3, false, []int{1, 2, 1}}, {5, false, []int{1, 2, 1, 4, 5}}, {5, true, []int{1, 2, 3, 4, 5}}} {
		limit := c.limit
		b := startBroker(t, 1)
		produce(t, b, 0, "m0", "m1")
		count := newTallies()
		first := newFake(failOn("m0", failed(store.FaultHandler, "poison")))
		r := run(t, newConsumer(t, groupConfig(b), counting{each{first}, count}, kafkasub.WithPolicy(slowPolicy(limit))))
		first.untilCalls(t, 2)
		eventually(t, "the second attempt is counted", func() bool {
			count.mu.Lock()
			defer count.mu.Unlock()
			return len(count.log) == 2
		})
		r.stop(t)
		spent := slices.Repeat([]string{"spend m0"}, limit)
		if c.died {
			count.die(1)
			spent = slices.Insert(spent, 2, "start m0")
			spent = slices.Insert(spent, 3, "survive m0")
		}
		// As in another process: what this one knows, it has from the counter.
		second := newFake(first.answer)
		r = run(t, newConsumer(t, groupConfig(b), counting{each{second}, count}, fastPolicy(limit)))
		untilCommitted(t, b, 0, 2)
		r.stop(t)
		if got := slices.Concat(first.attempts("m0"), second.attempts("m0")); !slices.Equal(got, c.want) {
			t.Errorf("attempts %v, want %v: %d in all", got, c.want, limit)
		}
		if len(second.buried) != 1 || second.buried[0].Attempt != limit {
			t.Errorf("buried %+v, want it with its %d attempts", second.buried, limit)
		}
		want := append(spent, "forget m0")
		if c.died {
			want = append(want, "start m1", "forget m1")
		}
		count.wants(t, want...)
	}
}

func TestAttemptsAreCountedInMemoryWhereTheCounterFails(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m0", "m1")
	count := newTallies()
	count.spendErr = errors.New("down")
	p := newFake(failOn("m0", failed(store.FaultHandler, "poison")))
	book, log := newLogBook(t)
	r := run(t, newConsumer(t, groupConfig(b), counting{each{p}, count}, log, fastPolicy(3)))
	untilCommitted(t, b, 0, 2)
	r.stop(t)
	if got := p.attempts("m0"); !slices.Equal(got, []int{1, 2, 3}) || len(p.buried) != 1 {
		t.Errorf("attempts %v and buried %v", got, bodies(p.buried))
	}
	if !book.has("an attempt is counted in this process alone", "down") {
		t.Error("nobody was told")
	}
}

func TestNothingIsCountedWhereNothingFailsAndNobodyDied(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 50)...)
	count := newTallies()
	for round := range int64(2) { // the second one takes over in order
		p := newFake(always)
		r := run(t, newConsumer(t, groupConfig(b), counting{each{p}, count}))
		untilCommitted(t, b, 0, 50*(round+1))
		r.stop(t)
		produce(t, b, 0, numbered("m", 50)...)
	}
	count.wants(t)
}
