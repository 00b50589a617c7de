//go:build unix

package soak

import (
	"slices"
	"testing"

	"github.com/semel-dev/semel/store"
)

// TestVerdictSees does one damage at a time to a faultless end.
func TestVerdictSees(t *testing.T) {
	messages := map[string]message{
		"a1": {ID: "a1", Key: "ordered-1", N: 1, Kind: plain},
		"a2": {ID: "a2", Key: "ordered-1", N: 2, Kind: contended},
		"a3": {ID: "a3", Key: "ordered-1", N: 3, Kind: failing},
		"a4": {ID: "a4", Key: "ordered-1", N: 4, Kind: plain},
		"b1": {ID: "b1", Key: "loose-1", N: 1, Kind: plain},
		"b2": {ID: "b2", Key: "loose-1", N: 2, Kind: nameless},
		"b3": {ID: "b3", Key: "loose-1", N: 3, Kind: plain},
		"b4": {ID: "b4", Key: "loose-1", N: 4, Kind: suspected}, // found out after it was produced as another kind
	}
	cases := []struct {
		want damage
		do   func(o *observed)
	}{
		{"", func(*observed) {}},
		{"", func(o *observed) { o.receipts = append(o.receipts, o.receipts...) }},
		{"", func(o *observed) { o.dead = append(o.dead, letter(messages["b2"], 8)) }}, // the producer sent it twice
		{missing, func(o *observed) { o.effects = o.effects[1:] }},
		{doubled, func(o *observed) { o.effects = append(o.effects, effect{ID: "a4", Key: "ordered-1", N: 4, Seq: 4}) }},
		{stranger, func(o *observed) { o.effects = append(o.effects, effect{ID: "z", Key: "z", N: 1, Seq: 1}) }},
		{poisonEffect, func(o *observed) { o.effects = append(o.effects, effect{ID: "a3", Key: "ordered-1", N: 3, Seq: 4}) }},
		{disorder, func(o *observed) { o.effects[1].Seq, o.effects[2].Seq = 3, 2 }},
		{sequence, func(o *observed) { o.effects[2].Seq = 9 }},
		{miscount, func(o *observed) { o.tills++ }},
		{notDead, func(o *observed) { o.dead = o.dead[1:] }},
		{deadTwice, func(o *observed) { o.dead = append(o.dead, letter(messages["a3"], 9)) }},
		{deadTwice, func(o *observed) { o.dead = append(o.dead, letter(messages["b2"], 2)) }},
		{wronglyDead, func(o *observed) { o.dead = append(o.dead, letter(messages["a1"], 9)) }},
		{unacked, func(o *observed) { o.lag = 1 }},
		{unsent, func(o *observed) { o.outbox = 1 }},
		{stillParked, func(o *observed) { o.waiting = 1 }},
		{eventMissing, func(o *observed) { o.receipts = o.receipts[1:] }},
		{eventWrongID, func(o *observed) { o.receipts[0].EventID = o.receipts[1].EventID }},
		{eventOrder, func(o *observed) { slices.Reverse(o.receipts) }},
	}
	for _, c := range cases {
		want := expected{consumer: payments, messages: messages}
		o := faultless(t, want)
		c.do(&o)
		findings := judge(want, o)
		switch {
		case c.want == "" && len(findings) > 0:
			t.Errorf("nothing is wrong, and it found %+v", findings)
		case c.want != "" && count(findings, c.want) == 0:
			t.Errorf("%s: it found %+v", c.want, findings)
		}
	}
}

func faultless(t *testing.T, x expected) (o observed) {
	t.Helper()
	messages := x.messages
	for _, e := range []effect{
		{ID: "a1", Key: "ordered-1", N: 1, Seq: 1},
		{ID: "a2", Key: "ordered-1", N: 2, Seq: 2},
		{ID: "a4", Key: "ordered-1", N: 4, Seq: 3},
		{ID: "b3", Key: "loose-1", N: 3, Seq: 1}, // copies raced
		{ID: "b1", Key: "loose-1", N: 1, Seq: 2},
	} {
		o.effects = append(o.effects, e)
		o.receipts = append(o.receipts, receipt{must(x.eventID(e.ID))(t), messages[e.ID], ""})
	}
	o.tills = 1
	produced := messages["b4"]
	produced.Kind = killer
	o.dead = []store.DeadLetter{letter(messages["a3"], 1), letter(messages["b2"], 2), letter(produced, 3)}
	return o
}

func letter(m message, offset int64) store.DeadLetter {
	return store.DeadLetter{Body: m.body(), Offset: offset}
}
