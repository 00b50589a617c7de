//go:build unix

package soak

import (
	"context"
	"slices"
	"testing"
	"time"
)

// Consumers that set the mark in a transaction of its own, behind the effect, double effects; consumers that acknowledge
// before the commit lose some. A soak that does not see that proves nothing about those that do neither.

func TestSoakSeesADoubledEffect(t *testing.T) {
	seesDamage(t, "nats", true, manyDeaths, wrongly(payments, marksOutside, doubled))
}

func TestSoakSeesALostEffect(t *testing.T) {
	seesDamage(t, "nats", true, manyDeaths, wrongly(payments, acksEarly, missing))
}

// A position that moves in a transaction of its own is behind the effects where a process dies between the two, and one
// without keys knows nothing of what a producer repeats.
func TestSoakSeesWrongPositions(t *testing.T) {
	seesDamage(t, "kafka", true, fewDeaths, wrongly(placed, marksOutside, doubled), wrongly(fenced, keepsNoKeys, doubled))
}

// A guard that parks nothing, and messages that are stored without their key, let others of the key overtake one that was
// given up.
func TestSoakSeesAnOvertaking(t *testing.T) {
	seesDamage(t, "nats", false, fewDeaths, wrongly(parking, parksNothing, overtook), wrongly(stored, storesLoose, overtook))
}

var (
	manyDeaths = []fault{killBusy, killBusy, killBusy, killAll, killOne, killOne}
	fewDeaths  = []fault{killBusy, killOne} // besides those of the messages that kill
)

// wrong is a group that is wired as it must not be, and what has to be seen of that.
type wrong struct {
	*group
	want damage
}

func wrongly(name string, m mode, want damage) wrong {
	return wrong{&group{name: name, modes: []mode{m, m, m}}, want}
}

func seesDamage(t *testing.T, kind string, sound bool, cards []fault, wrongs ...wrong) {
	t.Parallel() // they wait more than they work
	var groups []*group
	for _, g := range wrongs {
		groups = append(groups, g.group)
	}
	w := newWorld(t, kind, seedOf(t), 400, groups...)
	if sound {
		w.plan.soundOnly()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	stop := w.start()
	unattend := w.attend(ctx)
	err := w.storm(ctx, slices.Clone(cards), 1)
	if err == nil {
		err = w.calm(ctx)
	}
	unattend()
	if err != nil {
		w.lastWords()
	}
	stop()
	check(t, err)
	for _, g := range wrongs {
		findings := w.findings(g.group, w.observe(g.group))
		n := count(findings, g.want)
		t.Logf("%s: %d findings, of which %d: %s", g.name, len(findings), n, g.want)
		if n == 0 {
			t.Errorf("consumers of %s wired like %q went through without a %s", g.name, g.modes[0], g.want)
		}
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
