//go:build unix

package soak

import (
	"context"
	"testing"
	"time"
)

// Consumers that set the mark in a transaction of its own, behind the effect, double effects; consumers that acknowledge
// before the commit lose some. A soak that does not see that proves nothing about those that do neither.

func TestSoakSeesADoubledEffect(t *testing.T) { seesDamage(t, marksOutside, doubled) }

func TestSoakSeesALostEffect(t *testing.T) { seesDamage(t, acksEarly, missing) }

func seesDamage(t *testing.T, m mode, want damage) {
	w := newWorld(t, "nats", seedOf(t), 400, m, m, m)
	w.plan.soundOnly()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	stop := w.start()
	err := w.storm(ctx, []fault{killBusy, killBusy, killBusy, killAll, killOne, killOne}, 1)
	if err == nil {
		err = w.calm(ctx)
	}
	stop()
	check(t, err)

	findings := judge(w.plan.messages, w.observe())

	t.Logf("%d findings, of which %d: %s", len(findings), count(findings, want), want)
	if count(findings, want) == 0 {
		t.Errorf("consumers wired like %q went through without a %s", m, want)
	}
}

// soundOnly leaves no message that does harm, but for those that kill.
func (p *plan) soundOnly() {
	for id, m := range p.messages {
		p.messages[id] = m.sound()
	}
	for _, list := range p.lanes {
		for i := range list {
			list[i] = list[i].sound()
		}
	}
}

func (m message) sound() message {
	if m.Kind != killer {
		m.Kind = plain
	}
	return m
}
