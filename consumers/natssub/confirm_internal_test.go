package natssub

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/semel-dev/semel/integration/servers/servertest"
)

// Answers are confirmed in any order, or not at all; each is reported once, for what became of it.
func TestConfirmations(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(servertest.NATS(t))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var held []*nats.Msg
	_, err = nc.Subscribe("ack.*", func(m *nats.Msg) {
		switch kind := strings.TrimPrefix(m.Subject, "ack."); kind {
		case "once", "twice":
			_ = m.Respond(nil)
			if kind == "twice" {
				_ = m.Respond(nil)
			}
		case "behind":
			held = append(held, m)
		case "release":
			_ = m.Respond(nil)
			for i := range held {
				_ = held[len(held)-1-i].Respond(nil)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	const limit = 500 * time.Millisecond
	c, err := newConfirmer(nc, limit)
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		what string
		err  error
	}
	outcomes := make(chan outcome, 1000)
	send := func(subject string) {
		c.send(subject, []byte("+ACK"), func(err error) { outcomes <- outcome{subject, err} })
	}
	began := time.Now()
	for range 50 {
		for _, kind := range []string{"once", "twice", "behind", "never"} {
			send("ack." + kind)
		}
		send("nobody.listens")
	}
	send("ack.release")
	got := map[string]int{}
	for range 50*5 + 1 {
		o := <-outcomes
		if o.what == "ack.never" && time.Since(began) < limit {
			t.Errorf("given up after %s", time.Since(began))
		}
		got[fmt.Sprint(o.what, ": ", o.err)]++
	}
	want := map[string]int{
		"ack.once: <nil>": 50, "ack.twice: <nil>": 50, "ack.behind: <nil>": 50, "ack.release: <nil>": 1,
		"ack.never: context deadline exceeded": 50, "nobody.listens: " + errNobody.Error(): 50,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the outcomes are %v, want %v", got, want)
	}

	// What comes after everything has been given up is confirmed as well.
	send("ack.once")
	if o := <-outcomes; o.err != nil {
		t.Error(o.err)
	}
	c.mu.Lock()
	open, due := len(c.open), len(c.due)
	c.mu.Unlock()
	if open != 0 || due > 1 {
		t.Errorf("%d answers are open and %d deadlines kept", open, due)
	}
	c.close()
	if n := nc.NumSubscriptions(); n != 1 {
		t.Errorf("%d subscriptions are left, want the test's own", n)
	}
	select {
	case o := <-outcomes:
		t.Errorf("reported twice: %v", o)
	default:
	}
}
