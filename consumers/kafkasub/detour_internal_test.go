package kafkasub

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
)

func TestDetourGoesAroundTheBrokerThatDoesNotAnswerAndNotAroundTheCoordinator(t *testing.T) {
	for _, c := range []struct{ name, listed, did, want string }{
		{"nobody is passed over without a reason", "a b", "a b a c", "a b a c"},
		{"a broker that does not answer is passed over", "a b", "a a? a b c a b c", "a b c b c"},
		{"until it answers", "a b", "a a? a b a! a b a", "a b a b a"},
		{"unless it is the coordinator", "a b", "a a? a b a a b a", "a b a b a"},
		{"one that is not listed is meant", "a b", "c? a c", "a c"},
		{"the only one is asked again", "a", "a? a a", "a a"},
		{"the only one is asked again, though it is listed twice", "a a", "a? a a", "a a"},
		{"when nobody answers all are asked again", "a b", "a? b? a b", "a b"},
		{"two of three", "a b c", "a? b? a b c d a b c d", "c d c d"},
	} {
		d, got := &detour{listed: strings.Fields(c.listed), coordinator: true}, []string(nil)
		for _, act := range strings.Fields(c.did) {
			switch addr := act[:1]; {
			case act != addr:
				d.heard(addr, act == addr+"!")
			case d.admits(addr):
				d.dialled(addr, nil)
				got = append(got, addr)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: dialled %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDetourWithoutACoordinatorGoesAroundEveryTime(t *testing.T) {
	d := &detour{listed: []string{"a", "b"}}
	d.heard("a", false)
	for range 3 {
		if d.admits("a") || !d.admits("b") {
			t.Error("a is admitted, or b is not")
		}
		d.dialled("b", nil)
	}
}

// What counts is whether a broker has said anything on a connection, and whether there is one.
func TestSocketsTellTheDetourWhoAnswers(t *testing.T) {
	s := newSockets()
	defer s.cut()
	s.detour = &detour{listed: []string{"a", "b"}}
	down := map[string]bool{}
	dialer := &kafka.Dialer{DialFunc: func(_ context.Context, _, addr string) (net.Conn, error) {
		if down[addr] {
			return nil, errors.New("refused")
		}
		here, there := net.Pipe()
		go func() { _, _ = there.Write([]byte(addr)); there.Close() }()
		return here, nil
	}}
	dial := func(addr string, listen bool) error {
		conn, err := s.dial(t.Context(), dialer, "tcp", addr)
		if err != nil {
			return err
		}
		if listen {
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
		}
		return conn.Close()
	}
	for n, step := range []struct {
		addr         string
		listen, down bool
		passedOver   bool
	}{
		{addr: "a", listen: true}, {addr: "a"}, {addr: "a", passedOver: true}, {addr: "b", listen: true}, {addr: "a", passedOver: true},
		{addr: "b", down: true}, {addr: "a", listen: true}, {addr: "b", listen: true},
	} {
		down[step.addr] = step.down
		err := dial(step.addr, step.listen)
		if errors.Is(err, errNoAnswer) != step.passedOver || (err != nil) != (step.down || step.passedOver) {
			t.Errorf("step %d, %+v: %v", n, step, err)
		}
	}
}
