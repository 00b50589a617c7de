package kafkapub_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/store"
)

func TestOneBadRecordIsRefusedAloneAndTheOthersArrive(t *testing.T) {
	t.Parallel()
	t.Run("too large for the writer", func(t *testing.T) {
		t.Parallel()
		b := broker(t)
		p := publisher(t, b, func(w *kafka.Writer) { w.BatchBytes = 2000 })
		oneBadRecord(t, p, func() []string { return payloads(records(t, b, "a")) }, 3000)
	})
	t.Run("too large for the writer by its headers", func(t *testing.T) {
		t.Parallel()
		b := broker(t)
		p := publisher(t, b, func(w *kafka.Writer) { w.BatchBytes = 2000 })
		oneBadRecord(t, p, func() []string { return payloads(records(t, b, "a")) }, 1990)
	})
	t.Run("too large for the broker", func(t *testing.T) {
		t.Parallel()
		b := broker(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "2000"}))
		p := publisher(t, b, nil)
		oneBadRecord(t, p, func() []string { return payloads(records(t, b, "a")) }, 3000)
	})
	t.Run("malformed for the broker", func(t *testing.T) {
		t.Parallel()
		b := broker(t)
		// As a compacted topic does with a record that has no key.
		b.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Count: -1,
			When: func(r kmsg.Request) bool {
				return bytes.Contains(r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records, []byte("xxx"))
			},
		})
		p := publisher(t, b, nil)
		oneBadRecord(t, p, func() []string { return payloads(records(t, b, "a")) }, 100)
	})
}

// oneBadRecord publishes 40 events of five keys. One in the middle of its key is bad.
func oneBadRecord(t *testing.T, p outbox.Publisher, got func() []string, size int) {
	t.Helper()
	var events []store.Event
	for i := range 40 {
		key := string(rune('A' + i%5))
		events = append(events, event("a", key, fmt.Sprintf("%s%02d", key, i)))
	}
	const bad = 17
	events[bad].Payload = []byte("C17" + strings.Repeat("x", size-3))
	errs := p.Publish(t.Context(), events)
	var want []string
	for i, e := range events {
		verdict := outbox.Confirmed
		switch {
		case i == bad:
			verdict = outbox.RefusedForGood
		case i > bad && i%5 == bad%5:
			verdict = outbox.NotSent
		default:
			want = append(want, string(e.Payload))
		}
		if v := outbox.VerdictOf(errs[i]); v != verdict {
			t.Errorf("event %d (%.3s): %s (%v), want %s", i, e.Payload, v, errs[i], verdict)
		}
	}
	all := got()
	for _, key := range "ABCDE" {
		var of []string
		for _, s := range all {
			if rune(s[0]) == key {
				of = append(of, s)
			}
		}
		if !slices.IsSorted(of) {
			t.Errorf("key %c is out of order: %q", key, of)
		}
	}
	slices.Sort(all)
	slices.Sort(want)
	if !slices.Equal(all, want) {
		t.Errorf("arrived %q, want %q", all, want)
	}
}

func TestWhatCannotBeDeliveredIsRefusedForGoodBeforeItIsSent(t *testing.T) {
	t.Parallel()
	p := publisher(t, broker(t), nil)
	good := event("a", "k", "x")
	for name, change := range map[string]func(*store.Event){
		"no id":              func(e *store.Event) { e.ID = store.ID{} },
		"no topic":           func(e *store.Event) { e.Topic = "" },
		"topic with a space": func(e *store.Event) { e.Topic = "a b" },
		"topic of dots":      func(e *store.Event) { e.Topic = ".." },
		"long topic":         func(e *store.Event) { e.Topic = strings.Repeat("a", 250) },
		"its own id header":  func(e *store.Event) { e.Headers = []store.Header{{Key: kafkapub.HeaderID}} },
		"its own type":       func(e *store.Event) { e.Headers = []store.Header{{Key: kafkapub.HeaderType}} },
		"too large":          func(e *store.Event) { e.Payload = make([]byte, 1<<20+1) },
	} {
		bad := good
		change(&bad)
		if got := outbox.VerdictOf(p.Validate(bad)); got != outbox.RefusedForGood {
			t.Errorf("%s: Validate says %s", name, got)
		}
		errs := p.Publish(t.Context(), []store.Event{bad, good})
		if got := outbox.VerdictOf(errs[0]); got != outbox.RefusedForGood {
			t.Errorf("%s: Publish says %s (%v)", name, got, errs[0])
		}
		if got := outbox.VerdictOf(errs[1]); got != outbox.NotSent {
			t.Errorf("%s: the next one of the key is %s", name, got)
		}
	}
	if err := p.Validate(good); err != nil {
		t.Error(err)
	}
	if errs := p.Publish(t.Context(), nil); errs != nil {
		t.Errorf("no events: %v", errs)
	}
}
