//go:build unix

package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// observe reads what is there of a group.
func (w *world) observe(g *group) (o observed) {
	t := w.t
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	o.effects = must(w.effects(ctx, g))(t)
	check(t, w.pool.QueryRow(ctx, "select sum(sum) from "+g.name+".tills").Scan(&o.tills))
	switch g.name {
	case parking:
		o.dead = slices.Collect(maps.Values(w.discarded))
	case stored:
		o.dead = must(letters(ctx, w.box, stored+"/inbox"))(t)
	}
	o.dead = append(o.dead, must(letters(ctx, w.store, g.name))(t)...)
	if g.name == placed {
		for i := range o.dead {
			d := &o.dead[i]
			m := must(parse(d.Body))(t)
			d.Body = atPlace(dedup.Position{Partition: d.Partition, Offset: d.Offset}, m).body()
		}
	}
	o.waiting = len(must(w.whatWaits(ctx, g))(t).parked)
	o.outbox = must(outboxOf(ctx, w.store))(t)
	o.lag = must(w.broker.lag(ctx, g))(t)
	o.receipts = must(w.broker.receipts(ctx, g))(t)
	return o
}

// expect is what a group should have.
func (w *world) expect(g *group) expected {
	if g.name == placed {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return must(w.broker.(*kafkaBroker).placed(ctx))(w.t)
	}
	return expected{consumer: g.name, messages: maps.Clone(w.plan.messages)}
}

// verdict prints what happened and fails where it is wrong, or where too little has happened.
func (w *world) verdict(quick bool) {
	w.t.Helper()
	for _, a := range w.armed {
		w.tally.addN("COMMITs or their answers lost", a.Hits())
	}
	for _, g := range w.groups {
		o := w.observe(g)
		w.t.Logf("%s, seed %d, %s:\n%s", w.broker.name(), w.seed, g.name, table(w.report(g, o)))
		w.explain(g, w.findings(g, o))
		w.proveGroup(g)
	}
	w.t.Logf("%s, seed %d:\n%s", w.broker.name(), w.seed, table(w.deeds()))
	w.prove(quick)
}

// findings are those about what waited before it was run again and those about the end.
func (w *world) findings(g *group, o observed) []finding {
	want := w.expect(g)
	now := w.waiting[g.name]
	w.suspect(g, want.messages, slices.Concat(now.letters, o.dead))
	var list []finding
	if now.letters != nil {
		list = judgeWaiting(want.messages, now)
	}
	for id := range must(w.repaired(context.Background(), g))(w.t) {
		m := want.messages[id]
		m.Kind = plain
		if w.plan.messages[id].Kind == contended { // it was suspected
			m.Kind = contended
		}
		want.messages[id] = m
	}
	return append(list, judge(want, o)...)
}

// suspect makes poison of messages that were in the hands of so many processes at their deaths that a consumer may take
// them for the cause, and has.
func (w *world) suspect(g *group, messages map[string]message, given []store.DeadLetter) {
	for _, d := range given {
		m, err := parse(d.Body)
		if m = messages[m.ID]; err == nil && d.State == store.Dead && m.ID != "" && !m.Kind.poison() && g.ledger.deathsWith(m.ID) >= suspicious {
			w.t.Logf("%s (%s) was being handled at %d deaths and is among the dead letters: %.200s", m.ID, m.Kind, g.ledger.deathsWith(m.ID), d.Reason)
			m.Kind = suspected
			messages[m.ID] = m
		}
	}
}

// report is a group's part of the table.
func (w *world) report(g *group, o observed) []row {
	sum := must(g.ledger.look())(w.t)
	ids := map[string]bool{}
	for _, e := range o.effects {
		ids[e.ID] = true
	}
	return []row{
		{"applied, distinct", len(ids)},
		{"applied, rows", len(o.effects)},
		{"dead letters", len(o.dead)},
		{"behind parked keys before they ran again", len(w.waiting[g.name].letters)},
		{"lag", o.lag},
		{"results of the guards", sum.Deliveries},
		{"duplicates seen", sum.Duplicates},
		{"of a place settled before", sum.Redeliveries},
		{"twice in one batch", sum.Twins},
		{"handlers begun", sum.Handlers},
		{"serialisation failures / deadlocks in handlers", fmt.Sprint(sum.Serialisation, " / ", sum.Deadlocks)},
		{"results failed / busy / in an outage / unknown", fmt.Sprint(sum.Failed, " / ", sum.Busy, " / ", sum.Outages, " / ", sum.Unknown)},
		{"events, copies included", len(o.receipts)},
	}
}

// deeds are what was done to all of them.
func (w *world) deeds() []row {
	rows := []row{{"messages (distinct ids)", len(w.plan.messages)}, {"produced, copies included", w.produced}}
	w.tally.mu.Lock()
	defer w.tally.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(w.tally.counts)) {
		rows = append(rows, row{what, w.tally.counts[what]})
	}
	return append(rows, row{"elapsed", time.Since(w.began).Round(100 * time.Millisecond)})
}

// explain says what is wrong, with all that is known about the first ones of each kind.
func (w *world) explain(g *group, findings []finding) {
	w.t.Helper()
	shown := map[damage]int{}
	for _, f := range findings {
		if shown[f.damage]++; shown[f.damage] > 5 {
			continue
		}
		w.t.Errorf("%s: %s: %s %s", g.name, f.damage, f.id, f.text)
		if f.id == "" {
			continue
		}
		w.t.Logf("    produced at %+v", w.places[f.id])
		for _, line := range g.ledger.history(f.id) {
			w.t.Logf("    %s", line)
		}
	}
	for d, n := range shown {
		w.t.Logf("%s: %s: %d in all", g.name, d, n)
	}
}

// prove fails where the faults did not take place, or hit nothing.
func (w *world) prove(quick bool) {
	w.t.Helper()
	demand := []string{
		"kills", "kills in a handler", "killed by a message", "relays killed", "asked to leave", "broker restarts", "database restarts", "cuts",
		"resets to the start", "published again when done", "parked keys run again", "stored messages retried",
	}
	if !quick {
		demand = append(demand, "freezes", "COMMITs or their answers lost")
	}
	for _, what := range demand {
		if w.tally.of(what) == 0 {
			w.t.Errorf("nothing was tested: %s: none", what)
		}
	}
	twins, outages := 0, 0
	for _, g := range w.groups {
		sum := must(g.ledger.look())(w.t)
		twins, outages = twins+sum.Twins, outages+sum.Outages+sum.Unknown
	}
	sum := must(w.groups[0].ledger.look())(w.t)
	w.demand(payments, "messages delivered again by the broker", sum.Redeliveries)
	w.demand("all", "twice in one batch", twins)
	if !quick {
		w.demand(payments, "serialisation failures in handlers", sum.Serialisation)
		w.demand("all", "results in an outage", outages)
	}
}

// proveGroup does so for a group.
func (w *world) proveGroup(g *group) {
	w.t.Helper()
	sum := must(g.ledger.look())(w.t)
	w.demand(g.name, "deaths in a handler", w.tally.of("deaths in a handler of "+g.name))
	if g.name != placed {
		w.demand(g.name, "duplicates seen", sum.Duplicates)
	}
	if g.name == parking {
		w.demand(g.name, "messages that waited for a parked key", sum.Parked)
	}
}

func (w *world) demand(group, what string, n int) {
	w.t.Helper()
	if n == 0 {
		w.t.Errorf("nothing was tested: %s: %s: none", group, what)
	}
}
