package dedup

import (
	"context"

	"github.com/semel-dev/semel/store"
)

// chain handles one message after another, each in a transaction of its own, on one
// connection. Between two messages a transaction may already be open: the end of the
// last one has begun and marked it.
type chain[TTx any] struct {
	guard   *TxGuard[TTx]
	places  []store.Place // of the messages
	results []Result      // as far as there are
	noted   int           // so many of them are in what the guard knows of positions

	unit   store.Unit[TTx] // nil where nothing is open
	status store.Status    // of the mark of the message that is next
	// What a message needs for as long as it runs, so that it is not allocated for each.
	this  [1]identified
	next  identified
	mark  [1]store.Mark
	given [1]Message
	runs  runs
	err   error // why the message that is next could not be begun together with the last COMMIT
}

// do handles one message to its end. Where following is given, the transaction of that
// one may be open afterwards.
func (c *chain[TTx]) do(ctx context.Context, following *identified) Result {
	for tries := 0; ; tries++ {
		r := c.try(ctx, following)
		if !c.guard.again(ctx, r, tries) {
			return r
		}
	}
}

func (c *chain[TTx]) try(ctx context.Context, following *identified) Result {
	g, id := c.guard, &c.this[0]
	if err := c.begin(ctx, id); err != nil {
		return g.failed(ctx, err, g.marks.Fault(err))
	}
	switch c.status {
	case store.Seen:
		return c.pass(ctx, following)
	case store.Mismatched, store.Late:
		c.rollback(ctx)
		return refusal(c.status, id)
	}
	if err := context.Cause(ctx); err != nil {
		c.rollback(ctx)
		return Result{Failed, store.FaultCanceled, err}
	}
	clear(c.runs)
	c.runs = c.runs[:0]
	done := Applied
	if c.status == store.Blocked {
		done = Parked
		if err := g.park(ctx, c.unit.Tx(), id); err != nil {
			failed := g.failed(ctx, err, c.unit.Fault(err))
			c.rollback(ctx)
			return failed
		}
	} else if _, err := g.handle(ctx, c.unit.Tx(), g.given(c.given[:0], c.this[:]), &c.runs); err != nil {
		failed := g.handlerFailed(ctx, err, c.unit.Fault(err))
		c.rollback(ctx)
		return failed
	}
	end, err := c.end(ctx, following)
	if end != store.Committed {
		return g.notCommitted(ctx, end, err)
	}
	c.runs.committed()
	return Result{Outcome: done}
}

// begin opens the message's transaction unless the end of the last one has done so.
func (c *chain[TTx]) begin(ctx context.Context, id *identified) error {
	if err := c.err; err != nil {
		c.err = nil
		return err
	}
	if c.unit != nil {
		return nil
	}
	if c.places != nil {
		c.know(id.mark.Place)
	}
	unit, statuses, err := c.guard.marks.Begin(ctx, c.only(id))
	if err != nil {
		return err
	}
	c.unit, c.status = unit, statuses[0]
	return nil
}

// end commits, and begins the following message in the same breath.
func (c *chain[TTx]) end(ctx context.Context, following *identified) (store.End, error) {
	limited, cancel := c.guard.commitContext(ctx)
	defer cancel()
	if following == nil || ctx.Err() != nil {
		end, err := c.unit.Commit(limited)
		c.unit = nil
		return end, err
	}
	if c.places != nil {
		c.knowNext(following.mark.Place)
	}
	end, statuses, err := c.unit.Next(limited, c.only(following))
	if err == nil {
		c.status = statuses[0]
		return end, nil
	}
	c.unit = nil
	if end == store.Committed {
		c.err = err
		return end, nil
	}
	return end, err
}

// pass leaves a message that is done already. Nothing was written for it, so however its
// transaction ends, it is a duplicate: where it fails, the following message begins anew and meets
// whatever is wrong. A position has passed it only with the commit, though.
func (c *chain[TTx]) pass(ctx context.Context, following *identified) Result {
	if following == nil && c.guard.fences == nil {
		c.rollback(ctx)
		return Result{Outcome: Duplicate}
	}
	if end, err := c.end(ctx, following); end != store.Committed && c.guard.fences != nil {
		return c.guard.notCommitted(ctx, end, err)
	}
	return Result{Outcome: Duplicate}
}

// know tells the place of the message that is to begin what is known of its position.
func (c *chain[TTx]) know(p *store.Place) (asked bool) {
	done := len(c.results)
	c.guard.known.settled(c.places[c.noted:done], c.results[c.noted:done])
	c.noted = done
	p.Known, asked = c.guard.known.before(p)
	return asked
}

// knowNext does so for the message that begins with the commit of this one, which counts then. Behind
// a pooler the two may be on different servers.
func (c *chain[TTx]) knowNext(p *store.Place) {
	this := c.this[0].mark.Place
	same := haveOnePosition(this, p)
	if same && this.Known > 0 || c.know(p) && same {
		p.Known = max(this.Known, this.Offset+1)
	}
}

func (c *chain[TTx]) rollback(ctx context.Context) {
	if c.unit != nil {
		// The store closes a connection on which it cannot roll back; either way nothing stays.
		_ = c.unit.Rollback(ctx)
		c.unit = nil
	}
}

// only returns the message's mark, in a slice that is good until the next call.
func (c *chain[TTx]) only(id *identified) []store.Mark {
	if p := id.mark.Place; p != nil {
		p.Record = RecordOf(*id.m)
	}
	c.mark[0] = id.mark
	return c.mark[:]
}
