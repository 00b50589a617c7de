package kafkapub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

func TestAnEventArrivesByteForByteWithItsIDAndType(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil)
	full := store.Event{
		ID: store.NewID(), Topic: "a", Key: []byte("k\x00"), Type: "payment.captured",
		Payload: []byte(" {\"b\":1,\n \"a\":2}\xff"),
		Headers: []store.Header{{Key: "trace", Value: []byte("t1")}, {Key: "trace", Value: nil}},
	}
	tombstone := store.Event{ID: store.NewID(), Topic: "a", Key: []byte("k\x00")}
	empty := store.Event{ID: store.NewID(), Topic: "a", Key: []byte("k\x00"), Payload: []byte{}}
	if errs := p.Publish(t.Context(), []store.Event{full, tombstone, empty}); errs != nil {
		t.Fatal(errs)
	}
	got := records(t, b, "a")
	if len(got) != 3 {
		t.Fatalf("%d records, want 3", len(got))
	}
	r := got[0]
	if !bytes.Equal(r.Key, full.Key) || !bytes.Equal(r.Value, full.Payload) {
		t.Errorf("key %q, value %q", r.Key, r.Value)
	}
	var names []string
	for _, h := range r.Headers {
		names = append(names, h.Key+"="+string(h.Value))
	}
	want := []string{"id=" + full.ID.String(), "type=payment.captured", "trace=t1", "trace="}
	if !slices.Equal(names, want) {
		t.Errorf("headers %q, want %q", names, want)
	}
	if got[1].Value != nil {
		t.Errorf("the tombstone has the value %q", got[1].Value)
	}
	if got[2].Value == nil || len(got[2].Value) != 0 {
		t.Errorf("the empty payload became %#v", got[2].Value)
	}
	if len(got[1].Headers) != 1 {
		t.Errorf("an event without a type has the headers %v", got[1].Headers)
	}
}

func TestALostAnswerIsNotAConfirmationAndTheCopyHasTheSameID(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil)
	// The broker appends the batch and answers that it timed out.
	b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut})
	e := event("a", "k", "once")
	errs := p.Publish(t.Context(), []store.Event{e})
	if len(errs) != 1 || outbox.VerdictOf(errs[0]) != outbox.Unreached {
		t.Fatalf("the answer was lost, Publish said %v", errs)
	}
	if n := len(records(t, b, "a")); n != 1 {
		t.Fatalf("%d records after the lost answer, want the stored one", n)
	}
	if errs := p.Publish(t.Context(), []store.Event{e}); errs != nil {
		t.Fatal(errs)
	}
	got := records(t, b, "a")
	if len(got) != 2 {
		t.Fatalf("%d records, want 2 copies", len(got))
	}
	for _, r := range got {
		if id := string(r.Headers[0].Value); id != e.ID.String() {
			t.Errorf("a copy has the id %s, want %s", id, e.ID)
		}
	}
}

// With small batches kafka-go itself would write a later event of the key after giving up
// an earlier one.
func TestNothingOfAKeyOvertakesAnEventThatFailed(t *testing.T) {
	t.Parallel()
	for name, smallBatches := range map[string]func(*kafka.Writer){
		"batches cut by number": func(w *kafka.Writer) { w.BatchSize = 2 },
		"batches cut by size":   func(w *kafka.Writer) { w.BatchBytes = 300 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := broker(t)
			p := publisher(t, b, smallBatches)
			b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition})
			events := numbered("a", "k", 7)
			errs := p.Publish(t.Context(), events)
			for i, err := range errs {
				want := outbox.NotSent
				if i < 2 {
					want = outbox.Unreached
				}
				if got := outbox.VerdictOf(err); got != want {
					t.Errorf("event %d: %s (%v), want %s", i, got, err, want)
				}
			}
			if got := records(t, b, "a"); len(got) != 0 {
				t.Errorf("written past the failure: %q", payloads(got))
			}
			if errs := p.Publish(t.Context(), events); errs != nil {
				t.Fatal(errs)
			}
			if got := payloads(records(t, b, "a")); !slices.IsSorted(got) || len(got) != 7 {
				t.Errorf("out of order: %q", got)
			}
		})
	}
}

func TestAKeyIsInOrderOverTopics(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil)
	fault := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "a", Err: kerr.NotLeaderForPartition})
	defer fault.Remove()
	events := []store.Event{
		event("a", "k", "1"), event("b", "k", "2"), event("a", "k", "3"), event("b", "other", "4"), event("b", "", "5"),
	}
	errs := p.Publish(t.Context(), events)
	want := []outbox.Verdict{outbox.Unreached, outbox.NotSent, outbox.NotSent, outbox.Confirmed, outbox.Confirmed}
	for i, err := range errs {
		if got := outbox.VerdictOf(err); got != want[i] {
			t.Errorf("event %d: %s (%v), want %s", i, got, err, want[i])
		}
	}
	if errs := p.Publish(t.Context(), events[:3]); errs != nil {
		t.Fatal(errs)
	}
	a, bb := payloads(records(t, b, "a")), payloads(records(t, b, "b"))
	slices.Sort(bb)
	if !slices.Equal(a, []string{"1", "3"}) || !slices.Equal(bb, []string{"2", "4", "5"}) {
		t.Errorf("a has %q, b has %q", a, bb)
	}
}

func TestAMissingTopicHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	p := publisher(t, broker(t), nil)
	errs := p.Publish(t.Context(), []store.Event{event("missing", "k1", "1"), event("a", "k2", "2"), event("missing", "", "3")})
	want := []outbox.Verdict{outbox.Unreached, outbox.Confirmed, outbox.Unreached}
	for i, err := range errs {
		if got := outbox.VerdictOf(err); got != want[i] {
			t.Errorf("event %d: %s (%v), want %s", i, got, err, want[i])
		}
	}
}

func TestAnUnreachableClusterUsesNoAttempt(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil)
	b.Close()
	errs := p.Publish(t.Context(), []store.Event{event("a", "k", "1"), event("b", "", "2")})
	for i, err := range errs {
		if got := outbox.VerdictOf(err); got != outbox.Unreached {
			t.Errorf("event %d: %s (%v)", i, got, err)
		}
	}
	if len(errs) != 2 {
		t.Errorf("errors: %v", errs)
	}
}

func TestAllPublishersSendAKeyToTheSamePartition(t *testing.T) {
	t.Parallel()
	b := broker(t)
	first, second := publisher(t, b, nil), publisher(t, b, nil)
	for i := range 20 {
		key := fmt.Sprintf("key-%d", i)
		for _, p := range []outbox.Publisher{first, second} {
			if errs := p.Publish(t.Context(), []store.Event{event("a", key, key)}); errs != nil {
				t.Fatal(errs)
			}
		}
	}
	partition := make(map[string]int32)
	for _, r := range records(t, b, "a") {
		if p, seen := partition[string(r.Key)]; seen && p != r.Partition {
			t.Errorf("%s is on the partitions %d and %d", r.Key, p, r.Partition)
		}
		partition[string(r.Key)] = r.Partition
	}
}

func TestConcurrentCallsGoOutTogetherAndEachOnce(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, func(w *kafka.Writer) { w.BatchSize = 64 })
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for round := range 5 {
				var events []store.Event
				for i := range 20 {
					events = append(events, event("a", fmt.Sprintf("%c%d", 'A'+g, i%3), fmt.Sprintf("%c%d/%02d%02d", 'A'+g, i%3, round, i)))
				}
				if errs := p.Publish(t.Context(), events); errs != nil {
					t.Error(errs)
				}
			}
		})
	}
	wg.Wait()
	last := make(map[string]string)
	got := payloads(records(t, b, "a"))
	for _, s := range got {
		key, _, _ := strings.Cut(s, "/")
		if s <= last[key] {
			t.Errorf("%s after %s", s, last[key])
		}
		last[key] = s
	}
	if len(got) != 16*5*20 {
		t.Errorf("%d records, want %d", len(got), 16*5*20)
	}
}

func TestAContextThatHasEndedSendsNothing(t *testing.T) {
	t.Parallel()
	b := broker(t)
	p := publisher(t, b, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := p.Publish(ctx, []store.Event{event("a", "k", "1"), event("b", "", "2")})
	if len(errs) != 2 || !errors.Is(errs[0], outbox.ErrNotSent) || !errors.Is(errs[1], outbox.ErrNotSent) {
		t.Errorf("errors: %v", errs)
	}
	if got := records(t, b, "a"); len(got) != 0 {
		t.Errorf("written: %q", payloads(got))
	}
}
