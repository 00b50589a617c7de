package kafkapub

import (
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// NewWriter returns a Writer that [New] accepts: every in-sync replica confirms, keys are
// hashed as the Java client does, three attempts, and no waiting for a batch to fill, as
// the publisher hands over whole ones. Set Transport for TLS or SASL, Compression,
// BatchBytes and the timeouts as you need them before handing it to New.
func NewWriter(brokers ...string) *kafka.Writer {
	return &kafka.Writer{
		Addr:         kafka.TCP(brokers...),
		Balancer:     kafka.Murmur2Balancer{},
		RequiredAcks: kafka.RequireAll,
		// The relay tries again by itself, later and spread out. Ten attempts here, the
		// default, would hold a topic for minutes.
		MaxAttempts: 3,
		BatchSize:   500,
		// The shortest there is. Zero would be one second.
		BatchTimeout: 1,
	}
}

// checkWriter says what is wrong with a Writer and what would be right.
func checkWriter(w *kafka.Writer) error {
	switch {
	case w == nil:
		return errors.New("the Writer is nil: NewWriter makes one")
	case w.Addr == nil:
		return errors.New("Addr is nil: set it to kafka.TCP with your brokers")
	case w.Topic != "":
		return fmt.Errorf("Topic is %q: leave it empty, every event carries its own", w.Topic)
	case w.Async:
		return errors.New("Async is set: then nobody learns whether a message was written; leave it unset")
	case w.RequiredAcks != kafka.RequireAll:
		return fmt.Errorf("RequiredAcks is %q: an event that only some brokers have is lost with them; set kafka.RequireAll", w.RequiredAcks)
	case w.BatchTimeout <= 0:
		return errors.New("BatchTimeout is not set, which kafka-go takes for one second for every batch: set 1 nanosecond, the publisher hands over whole batches")
	case w.AllowAutoTopicCreation:
		return errors.New("AllowAutoTopicCreation is set: a misspelt topic would come into being and kafka-go may wait for it without end; create topics beforehand")
	case w.Balancer == nil:
		return errors.New("Balancer is nil, which spreads the events of one key over all partitions: set kafka.Murmur2Balancer{}, which agrees with the Java client, or another one that hashes the key")
	case !hashesKeys(w.Balancer):
		return fmt.Errorf("Balancer %T sends one key to several partitions, where it has no order: set kafka.Murmur2Balancer{} or another one that hashes the key", w.Balancer)
	}
	return nil
}

// hashesKeys tries the balancer, because one that the user wrote can only be judged by
// what it does.
func hashesKeys(b kafka.Balancer) bool {
	partitions := make([]int, 16)
	for i := range partitions {
		partitions[i] = i
	}
	for k := range 16 {
		m := kafka.Message{Key: fmt.Appendf(nil, "key-%d", k), Value: []byte("value")}
		first := b.Balance(m, partitions...)
		for range 3 {
			if b.Balance(m, partitions...) != first {
				return false
			}
		}
	}
	return true
}

// Limits as kafka-go reads them.

func batchSize(w *kafka.Writer) int {
	if w.BatchSize > 0 {
		return w.BatchSize
	}
	return 100
}

func batchBytes(w *kafka.Writer) int {
	if w.BatchBytes > 0 {
		return int(w.BatchBytes)
	}
	return 1 << 20
}

const (
	// defaultLimit is somewhat more than three attempts of NewWriter can take.
	defaultLimit = 35 * time.Second
	defaultGrace = 5 * time.Second
)
