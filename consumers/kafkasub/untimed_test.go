package kafkasub_test

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A record that has no time is the same one after a connection has broken as before.
func TestLogWithoutTimesIsNotTakenForAnotherOne(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	untimed := func(values ...string) {
		var rs []*kgo.Record
		for _, v := range values {
			rs = append(rs, &kgo.Record{Topic: topic, Value: []byte(v), Timestamp: time.UnixMilli(-1)})
		}
		produceRecords(t, b, rs...)
	}
	want := numbered("m", 5)
	untimed(want...)
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p, log))
	untilCommitted(t, b, 0, 5)
	breakOneFetch(b)
	untimed("wakes the reader")
	eventually(t, "the connection has broken", func() bool { return book.has("the reader is replaced") })
	untimed("after")
	p.until(t, "the record after", func() bool { return slices.Contains(bodies(p.calls), "after") })
	untilCommitted(t, b, 0, 7)
	r.stop(t)
	if got, want := p.seen(), append(want, "wakes the reader", "after"); !slices.Equal(got, want) || book.has("another one than before") {
		t.Errorf("handled %v, want %v", got, want)
	}
}
