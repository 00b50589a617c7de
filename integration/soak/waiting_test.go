//go:build unix

package soak

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
)

// waiting is what is there when everything has come to rest and keys still wait.
type waiting struct {
	effects  []effect
	letters  []store.DeadLetter // given up, and behind what was given up
	parked   map[string]bool    // the keys that the library calls parked
	repaired map[string]bool    // by an operator before
}

// whatWaits reads it.
func (w *world) whatWaits(ctx context.Context, g *group) (now waiting, err error) {
	now.parked = map[string]bool{}
	switch g.name {
	case parking:
		if now.letters, err = letters(ctx, w.store, g.name); err != nil {
			return now, err
		}
		keys, err := w.store.ParkedKeys(ctx, g.name, 1e6)
		if err != nil {
			return now, err
		}
		for _, k := range keys {
			now.parked[string(k.Order)] = true
		}
	case stored:
		events, err := w.box.ListWaiting(ctx, store.WaitingFilter{}, 0, 1e6)
		if err != nil {
			return now, err
		}
		for _, e := range events {
			m, err := kept(e)
			if err != nil {
				return now, err
			}
			d := store.DeadLetter{Body: m.body(), State: store.Waiting, Reason: e.Reason, Attempts: e.Attempts}
			if e.State == store.Parked {
				d.State = store.Dead
				now.parked[m.Key] = true
			}
			now.letters = append(now.letters, d)
		}
	}
	if now.repaired, err = w.repaired(ctx, g); err != nil {
		return now, err
	}
	now.effects, err = w.effects(ctx, g)
	return now, err
}

func (w *world) repaired(ctx context.Context, g *group) (map[string]bool, error) {
	rows, err := w.pool.Query(ctx, "select id from "+g.name+".repairs")
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	set := map[string]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set, err
}

func (w *world) effects(ctx context.Context, g *group) ([]effect, error) {
	rows, err := w.pool.Query(ctx, "select id, key, n, seq, lane, position, child from "+g.name+".effects")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[effect])
}

const (
	overtook damage = "message that did not wait for one of its key that was given up"
	twoEnds  damage = "message with an effect that still waits"
	stranded damage = "message that waits though its key is not parked"
)

// judgeWaiting demands of every message that it either has had its effect or waits, and of an ordered key that nothing
// behind the first one that waits has had its effect.
func judgeWaiting(messages map[string]message, now waiting) []finding {
	j := &judgement{messages: messages}
	effects, letters := map[string]bool{}, map[string]store.DeadLetter{}
	for _, e := range now.effects {
		effects[e.ID] = true
	}
	for _, d := range now.letters {
		m, err := parse(d.Body)
		if m = messages[m.ID]; err != nil || m.ID == "" {
			j.find(stranger, "", "letter %+v", d)
			continue
		}
		switch _, again := letters[m.ID]; {
		case again && m.Kind != nameless:
			j.find(deadTwice, m.ID, "letter %d", d.ID)
		case d.State == store.Dead && !m.Kind.poison():
			j.find(wronglyDead, m.ID, "after %d attempts: %.300s", d.Attempts, d.Reason)
		case !now.parked[m.Key]:
			j.find(stranded, m.ID, "key %s", m.Key)
		}
		letters[m.ID] = d
	}
	byKey := map[string][]message{}
	for _, m := range messages {
		byKey[m.Key] = append(byKey[m.Key], m)
	}
	for key, list := range byKey {
		slices.SortFunc(list, func(a, b message) int { return cmp.Compare(a.N, b.N) })
		first := 0
		for _, m := range list {
			_, waits := letters[m.ID]
			switch done := effects[m.ID]; {
			case done && waits:
				j.find(twoEnds, m.ID, "%+v", letters[m.ID].State)
			case done && m.Kind.poison() && !now.repaired[m.ID]:
				j.find(poisonEffect, m.ID, "%s, and nobody has repaired it", m.Kind)
			case done && first > 0 && m.ordered():
				j.find(overtook, m.ID, "key %s: message %d has its effect, and message %d waits", key, m.N, first)
			case !done && !waits && m.Kind != nameless:
				j.find(missing, m.ID, "neither done nor waiting: %+v", m)
			}
			if waits && first == 0 {
				first = m.N
			}
		}
	}
	return j.findings
}
