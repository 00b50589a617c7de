package kafkapub_test

import (
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/outbox/kafkapub"
)

func TestAWriterThatCouldLoseAnEventOrItsOrderIsRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, says string
		change     func(*kafka.Writer)
	}{
		{"no acknowledgement", "kafka.RequireAll", func(w *kafka.Writer) { w.RequiredAcks = kafka.RequireNone }},
		{"one acknowledgement", "kafka.RequireAll", func(w *kafka.Writer) { w.RequiredAcks = kafka.RequireOne }},
		{"asynchronous", "Async", func(w *kafka.Writer) { w.Async = true }},
		{"a topic of its own", "leave it empty", func(w *kafka.Writer) { w.Topic = "a" }},
		{"no address", "kafka.TCP", func(w *kafka.Writer) { w.Addr = nil }},
		{"the default balancer", "kafka.Murmur2Balancer", func(w *kafka.Writer) { w.Balancer = nil }},
		{"round robin", "kafka.Murmur2Balancer", func(w *kafka.Writer) { w.Balancer = &kafka.RoundRobin{} }},
		{"least bytes", "kafka.Murmur2Balancer", func(w *kafka.Writer) { w.Balancer = &kafka.LeastBytes{} }},
		{"the default batch timeout", "one second", func(w *kafka.Writer) { w.BatchTimeout = 0 }},
		{"creation of topics", "beforehand", func(w *kafka.Writer) { w.AllowAutoTopicCreation = true }},
	} {
		w := kafkapub.NewWriter("127.0.0.1:1")
		c.change(w)
		if _, err := kafkapub.New(w); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the error %v does not say %q", c.name, err, c.says)
		}
	}
	if _, err := kafkapub.New(nil); err == nil {
		t.Error("nil was taken")
	}
	if _, err := kafkapub.New(kafkapub.NewWriter("127.0.0.1:1"), kafkapub.WithLimit(0)); err == nil {
		t.Error("a limit of zero was taken")
	}
	if _, err := kafkapub.New(kafkapub.NewWriter("127.0.0.1:1"), kafkapub.WithGrace(-1)); err == nil {
		t.Error("a grace below zero was taken")
	}
}

func TestEveryBalancerThatHashesTheKeyIsTaken(t *testing.T) {
	t.Parallel()
	for _, b := range []kafka.Balancer{
		kafka.Murmur2Balancer{}, &kafka.Murmur2Balancer{Consistent: true}, kafka.CRC32Balancer{}, &kafka.Hash{}, &kafka.ReferenceHash{},
		kafka.BalancerFunc(func(m kafka.Message, partitions ...int) int { return partitions[int(m.Key[0])%len(partitions)] }),
	} {
		w := kafkapub.NewWriter("127.0.0.1:1")
		w.Balancer = b
		if _, err := kafkapub.New(w); err != nil {
			t.Errorf("%T: %v", b, err)
		}
	}
}
