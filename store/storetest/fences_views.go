package storetest

import (
	"context"

	"github.com/semel-dev/semel/store"
)

// positionOnlyRules are about views that keep no keys.
func positionOnlyRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"keys do not matter",
		"Where only positions are kept, a message is judged by its place, whatever its key and its fingerprint are.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			for offset := range int64(3) {
				m := printed(s.at("log", 0, offset), string(rune('a'+offset)))
				m.Key = s.mark("always the same").Key
				s.begin(store.New, m).commit()
				m.Key = s.mark("another", offset).Key
				s.begin(store.Seen, m).commit()
			}
		},
	}}
}

// positionAndKeyRules are about views that keep both.
func positionAndKeyRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"position or key",
		"Where keys are kept beside positions a message is New only if both say so, and the position moves on in either case.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			s.begin(store.New, s.at("log", 0, 0)).commit()
			retry := s.at("log", 0, 1)
			retry.Key = s.at("log", 0, 0).Key
			s.begin(store.Seen, retry).commit()
			s.applied("log", 0, s.upTo("log", 0, 1))
			passed := s.at("log", 0, 1)
			passed.Key = s.mark("never met").Key
			s.begin(store.Seen, passed).commit()
			fresh := s.at("log", 0, 2)
			other := retry
			other.Place = &store.Place{Log: "log", Partition: 1, Offset: 0}
			s.beginAll([]store.Mark{passed, fresh, other}, []store.Status{store.Seen, store.New, store.Seen}).commit()
		},
	}, {
		"position and fingerprint",
		"Where keys are kept beside positions, a message after the position whose key is there with another fingerprint is Mismatched.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			first := printed(s.at("log", 0, 0), "one")
			s.begin(store.New, first).commit()
			second := printed(s.at("log", 0, 1), "two")
			second.Key = first.Key
			s.begin(store.Mismatched, second).commit()
			s.begin(store.Seen, second).commit()
			s.applied("log", 0, s.upTo("log", 0, 1))
		},
	}}
}

// positionLetterRules are about dead letters of messages in order.
func positionLetterRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"a dead letter moves the position",
		"The letter of a message that was given up and the position after it are committed together.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			u := s.begin(store.New, s.at("log", 0, 0))
			u.buryAs(store.Dead, "")
			u.rollback()
			s.applied("log", 0, store.Applied{Offset: -1})
			u = s.begin(store.New, s.at("log", 0, 0))
			u.buryAs(store.Dead, "")
			u.commit()
			s.applied("log", 0, s.upTo("log", 0, 0))
			s.begin(store.Seen, s.at("log", 0, 0)).rollback()
		},
	}, {
		"positions and parked keys",
		"A message after the position whose ordering key is parked is Blocked, one at or before it is Seen.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.openFenced(e)
			ordered := func(offset int64, order string) store.Mark {
				m := s.at("log", 0, offset)
				m.Order = store.OrderID([]byte(order))
				return m
			}
			u := s.begin(store.New, ordered(0, "x"))
			u.buryAs(store.Dead, "x")
			u.next(store.Blocked, ordered(1, "x"))
			u.buryAs(store.Waiting, "x")
			u.commit()
			s.beginAll([]store.Mark{ordered(1, "x"), ordered(2, "x"), ordered(3, "y")}, []store.Status{store.Seen, store.Blocked, store.New}).rollback()
			s.begin(store.Blocked, ordered(2, "x")).commit()
			s.applied("log", 0, s.upTo("log", 0, 2))
		},
	}}
}

// buryAs buries a letter of the exam's consumer.
func (u *marksUnit[TTx]) buryAs(state store.LetterState, order string) {
	u.Helper()
	b, ok := u.Marks.(store.Burier[TTx])
	if !ok {
		u.failf("the store does not implement Burier and the harness does not declare NoBurier")
	}
	d := store.DeadLetter{Consumer: examConsumer, Key: store.DigestKey([]byte("m")), State: state, Time: epoch}
	if order != "" {
		d.Order = []byte(order)
	}
	tx := u.Unit.Tx()
	u.check("BuryTx", within(u.exam, "BuryTx", func(ctx context.Context) error { return b.BuryTx(ctx, tx, d) }))
}
