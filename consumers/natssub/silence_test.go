package natssub_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/natssub"
)

// Drain, rolling back and one ack limit: that is what a platform has to allow.
func TestASilentServerHoldsUpTheEndForOneAckLimitInAll(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	direct := b.connect()
	makeStream(t, direct)
	js, proxy := b.connectThrough()
	publish(t, direct, numbered(10)...)
	p, running, finish := blocker()
	const limit = 8 * time.Second
	r := consume(t, js, p, natssub.WithConcurrency(2), natssub.WithDrain(0), natssub.WithAckLimit(limit))
	receive(t, running)
	receive(t, running)
	eventually(t, "everything in hand", func() bool { return info(t, direct).NumAckPending == 10 })
	proxy.Freeze()
	finish <- struct{}{} // whose acknowledgement is not confirmed
	receive(t, running)
	begun := time.Now()
	r.cancel()
	err := r.wait()
	if took := time.Since(begun); took > 2*limit-time.Second {
		t.Errorf("Run returned after %s, with an ack limit of %s", took, limit)
	}
	if !errors.Is(err, natssub.ErrNotClean) || !strings.Contains(err.Error(), "may not know of 9 messages") {
		t.Errorf("Run: %v", err)
	}
	proxy.Thaw()
}
