//go:build unix

package soak

import (
	"testing"

	"github.com/semel-dev/semel/store"
)

// TestVerdictSeesWhatWaits does one damage at a time to keys that wait as they should.
func TestVerdictSeesWhatWaits(t *testing.T) {
	messages := map[string]message{
		"a1": {ID: "a1", Key: "ordered-1", N: 1, Kind: plain},
		"a2": {ID: "a2", Key: "ordered-1", N: 2, Kind: failing},
		"a3": {ID: "a3", Key: "ordered-1", N: 3, Kind: plain},
		"a4": {ID: "a4", Key: "ordered-1", N: 4, Kind: failing},
		"b1": {ID: "b1", Key: "loose-1", N: 1, Kind: hopeless},
		"b2": {ID: "b2", Key: "loose-1", N: 2, Kind: plain}, // a copy of it came earlier, elsewhere
		"c1": {ID: "c1", Key: "ordered-2", N: 1, Kind: panicking},
		"c2": {ID: "c2", Key: "ordered-2", N: 2, Kind: nameless}, // discarded
		"c3": {ID: "c3", Key: "ordered-2", N: 3, Kind: plain},
	}
	cases := []struct {
		name string
		want damage
		do   func(w *waiting)
	}{
		{"nothing", "", func(*waiting) {}},
		{"one is lost behind a parked key", missing, func(w *waiting) { w.letters = w.letters[:3] }},
		{"one did not wait", overtook, func(w *waiting) {
			w.letters = append(w.letters[:1:1], w.letters[2:]...)
			w.effects = append(w.effects, effect{ID: "a3"})
		}},
		{"one did not wait and waits", twoEnds, func(w *waiting) { w.effects = append(w.effects, effect{ID: "a3"}) }},
		{"one waits twice", deadTwice, func(w *waiting) { w.letters = append(w.letters, waits(messages["a3"])) }},
		{"a sound one was given up", wronglyDead, func(w *waiting) { w.letters[1].State = store.Dead }},
		{"a key that nobody knows to wait", stranded, func(w *waiting) { delete(w.parked, "ordered-1") }},
		{"poison that nobody repaired", poisonEffect, func(w *waiting) { delete(w.repaired, "c1") }},
		{"something else", stranger, func(w *waiting) { w.letters = append(w.letters, waits(message{ID: "z", Key: "z", N: 1})) }},
	}
	for _, c := range cases {
		now := waiting{
			effects:  []effect{{ID: "a1"}, {ID: "b2"}, {ID: "c1"}, {ID: "c3"}},
			letters:  []store.DeadLetter{letter(messages["a2"], 1), waits(messages["a3"]), letter(messages["b1"], 2), waits(messages["a4"])},
			parked:   map[string]bool{"ordered-1": true, "loose-1": true},
			repaired: map[string]bool{"c1": true},
		}
		c.do(&now)
		findings := judgeWaiting(messages, now)
		switch {
		case c.want == "" && len(findings) > 0:
			t.Errorf("nothing is wrong, and it found %+v", findings)
		case c.want != "" && count(findings, c.want) == 0:
			t.Errorf("%s: no %s, but %+v", c.name, c.want, findings)
		}
	}
}

func waits(m message) store.DeadLetter {
	return store.DeadLetter{Body: m.body(), State: store.Waiting}
}
