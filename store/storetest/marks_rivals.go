package storetest

import (
	"context"

	"github.com/semel-dev/semel/store"
)

// rivalRules are about two transactions at a time.
func rivalRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"rival of a commit",
		"A rival waits for the transaction that holds the mark, and when that one commits, the mark is Seen.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			rival := b.rival(b.mark("m"))
			b.blocked(1, rival)
			u.effect("e")
			u.commit()
			r := b.accept("Begin of the rival", b.receive(rival), []store.Status{store.Seen})
			b.effects("e", 1)
			r.rollback()
		},
	}, {
		"rival of a rollback",
		"A rival waits for the transaction that holds the mark, and when that one rolls back, the mark is New.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			u.effect("e")
			rival := b.rival(b.mark("m"))
			b.blocked(1, rival)
			u.rollback()
			r := b.accept("Begin of the rival", b.receive(rival), []store.Status{store.New})
			r.effect("e")
			r.commit()
			b.effects("e", 1)
			a.begin(store.Seen, a.mark("m")).rollback()
		},
	}, {
		"rival of a next",
		"Next frees the marks of the transaction that it commits: a rival of theirs finds them Seen.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			rival := b.rival(b.mark("m"))
			b.blocked(1, rival)
			u.next(store.New, a.mark("n"))
			b.accept("Begin of the rival", b.receive(rival), []store.Status{store.Seen}).rollback()
			u.rollback()
		},
	}, {
		"two rivals",
		"Of two rivals that wait for a transaction which rolls back, one gets the mark New and the other waits for it.",
		func(e *exam, c *marksCase[TTx]) {
			a, b, d := c.open(e), c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			first, second := b.rival(b.mark("m")), d.rival(d.mark("m"))
			b.blocked(2, first)
			d.blocked(2, second)
			u.rollback()
			var winner, loser opened[TTx]
			other := second
			select {
			case winner = <-first:
			case winner = <-second:
				other = first
			}
			w := b.accept("Begin of the first to go on", winner, []store.Status{store.New})
			b.blocked(1, other)
			w.commit()
			loser = d.receive(other)
			d.accept("Begin of the other", loser, []store.Status{store.Seen}).rollback()
		},
	}, {
		"two rivals of a commit",
		"Rivals of a transaction that commits find the mark Seen all at once: none waits for another that has nothing to write.",
		func(e *exam, c *marksCase[TTx]) {
			a, b, d := c.open(e), c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("m"))
			first, second := b.rival(b.mark("m")), d.rival(d.mark("m"))
			b.blocked(2, first)
			d.blocked(2, second)
			u.commit()
			one := b.accept("Begin of the first rival", b.receive(first), []store.Status{store.Seen})
			two := d.accept("Begin of the second rival", d.receive(second), []store.Status{store.Seen})
			one.rollback()
			two.rollback()
		},
	}, {
		"no rival, no wait",
		"Marks that differ do not wait for each other, and neither does a mark that was committed long ago.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			a.begin(store.New, a.mark("old")).commit()
			u := a.beginAll([]store.Mark{a.mark("m"), a.mark("old")}, []store.Status{store.New, store.Seen})
			other := b.mark("m")
			other.Scope = b.scopeOf("another consumer")
			b.beginAll([]store.Mark{b.mark("n"), other, b.mark("old")},
				[]store.Status{store.New, store.New, store.Seen}).commit()
			u.commit()
		},
	}}
}

// busyRules are about rivals that stay: the lock limit is short in them.
func busyRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"rival past the lock limit",
		"A rival that stays beyond the lock limit is FaultBusy, and nothing of the refused call is left open.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			u := a.begin(store.New, a.mark("held"))
			// On both sides of the held one in every order that a store may take.
			marks := []store.Mark{b.mark("held")}
			for i := range 8 {
				marks = append(marks, b.mark("free", i), b.timed(epoch, "free", i))
			}
			o := within(e, "Begin", func(ctx context.Context) opened[TTx] { return b.try(ctx, marks) })
			b.busy("Begin", o.err)
			for _, m := range marks[1:] {
				a.begin(store.New, m).rollback()
			}
			u.commit()
			b.begin(store.Seen, b.mark("held")).rollback()
		},
	}, {
		"next behind a busy mark",
		"Next whose marks are busy has committed the transaction that was open, says so, and has ended the unit.",
		func(e *exam, c *marksCase[TTx]) {
			a, b := c.open(e), c.open(e)
			holder := a.begin(store.New, a.mark("held"))
			u := b.begin(store.New, b.mark("m"))
			u.effect("e")
			n := u.tryNext(b.mark("held"))
			if n.end != store.Committed {
				e.failf("Next: end %q, error %v", n.end, n.err)
			}
			b.busy("Next", n.err)
			b.effects("e", 1)
			u.refuses(b.mark("free"))
			b.begin(store.Seen, b.mark("m")).rollback()
			holder.commit()
		},
	}}
}
