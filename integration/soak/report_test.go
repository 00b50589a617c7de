//go:build unix

package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
)

// observe reads what is there.
func (w *world) observe() (o observed) {
	t := w.t
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	rows := must(w.pool.Query(ctx, "select id, key, n, seq, lane, position, child from effects"))(t)
	o.effects = must(pgx.CollectRows(rows, pgx.RowToStructByPos[effect]))(t)
	check(t, w.pool.QueryRow(ctx, "select sum(sum) from tills").Scan(&o.tills))
	for after := int64(0); ; {
		page := must(w.store.ListDead(ctx, store.LetterFilter{Consumer: consumerName}, after, 100))(t)
		if len(page) == 0 {
			break
		}
		o.dead, after = append(o.dead, page...), page[len(page)-1].ID
	}
	o.outbox = must(w.outbox(ctx))(t)
	o.lag = must(w.broker.lag(ctx))(t)
	o.receipts = must(w.broker.receipts(ctx))(t)
	return o
}

// verdict prints what happened and fails where it is wrong, or where too little has happened.
func (w *world) verdict(o observed, quick bool) {
	w.t.Helper()
	w.t.Logf("%s, seed %d:\n%s", w.broker.name(), w.seed, table(w.report(o)))
	findings := judge(w.withSuspects(o), o)
	w.explain(findings)
	w.prove(quick)
}

// withSuspects are the messages, but those that were in the hands of so many processes at their deaths that a consumer
// may take them for the cause, and has, count as poison.
func (w *world) withSuspects(o observed) map[string]message {
	messages := maps.Clone(w.plan.messages)
	for _, d := range o.dead {
		m, err := parse(d.Body)
		if m = messages[m.ID]; err == nil && m.ID != "" && !m.Kind.poison() && w.ledger.deathsWith(m.ID) >= suspicious {
			w.t.Logf("%s (%s) was being handled at %d deaths and is among the dead letters: %.200s", m.ID, m.Kind, w.ledger.deathsWith(m.ID), d.Reason)
			m.Kind = suspected
			messages[m.ID] = m
		}
	}
	return messages
}

func (w *world) report(o observed) []row {
	sum := must(w.ledger.look())(w.t)
	ids := map[string]bool{}
	for _, e := range o.effects {
		ids[e.ID] = true
	}
	for _, a := range w.armed {
		w.tally.addN("COMMITs or their answers lost", a.Hits())
	}
	rows := []row{
		{"messages (distinct ids)", len(w.plan.messages)},
		{"produced, copies included", w.produced},
		{"applied, distinct", len(ids)},
		{"applied, rows", len(o.effects)},
		{"dead letters", len(o.dead)},
		{"lag", o.lag},
		{"results of the guards", sum.Deliveries},
		{"duplicates seen", sum.Duplicates},
		{"of a place settled before", sum.Redeliveries},
		{"twice in one batch", sum.Twins},
		{"handlers begun", sum.Handlers},
		{"serialisation failures / deadlocks in handlers", fmt.Sprint(sum.Serialisation, " / ", sum.Deadlocks)},
		{"results failed / busy / in an outage / unknown", fmt.Sprint(sum.Failed, " / ", sum.Busy, " / ", sum.Outages, " / ", sum.Unknown)},
		{"events, copies included", len(o.receipts)},
		{"events left in the outbox", o.outbox},
	}
	w.tally.mu.Lock()
	defer w.tally.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(w.tally.counts)) {
		rows = append(rows, row{what, w.tally.counts[what]})
	}
	return append(rows, row{"elapsed", time.Since(w.began).Round(100 * time.Millisecond)})
}

// explain says what is wrong, with all that is known about the first ones of each kind.
func (w *world) explain(findings []finding) {
	w.t.Helper()
	shown := map[damage]int{}
	for _, f := range findings {
		if shown[f.damage]++; shown[f.damage] > 5 {
			continue
		}
		w.t.Errorf("%s: %s %s", f.damage, f.id, f.text)
		if f.id == "" {
			continue
		}
		w.t.Logf("    produced at %+v", w.places[f.id])
		for _, line := range w.ledger.history(f.id) {
			w.t.Logf("    %s", line)
		}
	}
	for d, n := range shown {
		w.t.Logf("%s: %d in all", d, n)
	}
}

// prove fails where the faults did not take place, or hit nothing.
func (w *world) prove(quick bool) {
	w.t.Helper()
	sum := must(w.ledger.look())(w.t)
	demand := []row{
		{"kills", w.tally.of("kills")},
		{"kills in a handler", w.tally.of("kills in a handler")},
		{"killed by a message", w.tally.of("killed by a message")},
		{"relays killed", w.tally.of("relays killed")},
		{"asked to leave", w.tally.of("asked to leave")},
		{"broker restarts", w.tally.of("broker restarts")},
		{"database restarts", w.tally.of("database restarts")},
		{"cuts", w.tally.of("cuts")},
		{"resets to the start", w.tally.of("resets to the start")},
		{"published again when done", w.tally.of("published again when done")},
		{"duplicates seen", sum.Duplicates},
		{"messages delivered again by the broker", sum.Redeliveries},
		{"twice in one batch", sum.Twins},
	}
	if !quick {
		demand = append(demand,
			row{"freezes", w.tally.of("freezes")},
			row{"serialisation failures in handlers", sum.Serialisation},
			row{"results in an outage", sum.Outages + sum.Unknown},
			row{"COMMITs or their answers lost", w.tally.of("COMMITs or their answers lost")},
		)
	}
	for _, d := range demand {
		if d.value == 0 {
			w.t.Errorf("nothing was tested: %s: none", d.name)
		}
	}
}
