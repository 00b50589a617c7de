package kafkasub

import (
	"errors"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/dedup"
)

// Topics may keep no timestamps. Their records have coordinates all the same.
func TestARecordWithoutATimeHasCoordinates(t *testing.T) {
	t.Parallel()
	key := func(offset int64) dedup.Key {
		k, err := dedup.FromCoordinates()(message(kafka.Message{Topic: "t", Offset: offset}))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if key(1).Stored() == key(2).Stored() {
		t.Error("two records have one key")
	}
	if _, err := dedup.FromHeader("id")(message(kafka.Message{Topic: "t"})); !errors.Is(err, dedup.ErrNoKey) {
		t.Errorf("the error is %v", err)
	}
}
