package natssub_test

import (
	"context"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
)

func TestStateTellsSinceWhenAHandlerHangsBesideOthers(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	hung := make(chan struct{})
	begun := make(chan struct{}, 2)
	p := &processor{process: func(_ context.Context, m dedup.Message) dedup.Result {
		if string(m.Body) == "hangs" {
			begun <- struct{}{}
			<-hung
		}
		return applied
	}}
	c, r := startNew(t, js, p, natssub.WithConcurrency(3))
	before := time.Now()
	publish(t, js, "hangs")
	receive(t, begun)
	since := state(t, c).HandlingSince
	if since.Before(before) || since.After(time.Now()) {
		t.Errorf("handling since %s, published at %s", since, before)
	}
	publish(t, js, "hangs")
	receive(t, begun)
	publish(t, js, numbered(20)...)
	eventually(t, "all the others", func() bool { return info(t, js).NumAckPending == 2 && len(p.got()) == 22 })
	for range 20 {
		if s := state(t, c); !s.HandlingSince.Equal(since) || s.Handling != 2 || !s.LastProgress.After(since) {
			t.Fatalf("state %+v, want two handlers at work, one since %s", s, since)
		}
	}
	close(hung)
	settled(t, js)
	eventually(t, "nothing at work", func() bool { return state(t, c).HandlingSince.IsZero() })
	r.stop()
}
