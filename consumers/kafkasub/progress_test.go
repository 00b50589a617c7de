package kafkasub_test

import (
	"context"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
)

// However much the lanes beside it settle, nothing of that can be committed.
func TestLaneThatHangsBesideOthersIsNoProgress(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	entered, goOn := make(chan struct{}), make(chan struct{})
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "hangs" {
			close(entered)
			<-goOn
		}
		return applied
	})
	produce(t, b, 0, "before")
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithConcurrency(4)))
	untilCommitted(t, b, 0, 1)
	produce(t, b, 0, "hangs")
	<-entered
	progress := func() time.Time { return r.Assigned()[0].LastProgress }
	stuck := progress()
	produce(t, b, 0, numbered("m", 40)...)
	p.untilCalls(t, 2+16) // of which three at most are not settled
	if got := r.Assigned()[0]; !got.LastProgress.Equal(stuck) || got.Settled != 1 {
		t.Errorf("%+v, want the progress of %s", got, stuck)
	}
	close(goOn)
	untilCommitted(t, b, 0, 42)
	if !progress().After(stuck) {
		t.Error("there is no progress although all is settled")
	}
	r.stop(t)
}
