package outbox

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// result takes in what became of a call.
func (p *pump) result(res result, now time.Time) {
	l := res.lane
	flight := l.flight
	l.running = false
	p.running--
	if !l.alone {
		l.dest.running--
		p.freeCall(l.dest)
	}
	var again []item
	switch {
	case res.broken != nil:
		p.broken(flight, res.broken, now)
	case res.errs == nil:
		for i := range flight {
			p.confirmed(&flight[i])
		}
	default:
		again = p.verdicts(flight, res.errs, now)
	}
	if l.alone {
		for i := range again {
			p.back(&again[i])
		}
		p.aloneOver(&flight[0])
		return
	}
	if len(again) > 0 {
		l.queue = append(again, l.queue...)
	}
	clear(flight)
	l.flight = flight[:0]
	p.touch(l)
}

// freeCall lets a lane that waited for a call begin one.
func (p *pump) freeCall(d *destination) {
	if len(d.queued) == 0 {
		return
	}
	l := d.queued[0]
	d.queued = d.queued[1:]
	l.listed = false
	p.touch(l)
}

func (p *pump) confirmed(it *item) {
	if it.slot.lost {
		return
	}
	if len(p.routes) > 0 {
		p.reached(p.routeOf(&it.row.Event))
	}
	p.sent(it)
}

// verdicts takes in what became of each event, in their order, and returns those that are to be
// tried again at once.
func (p *pump) verdicts(flight []item, errs []error, now time.Time) (again []item) {
	tried := false
	for i := range flight {
		if VerdictOf(errs[i]) != NotSent {
			tried = true
			break
		}
	}
	for i := range flight {
		it, err := &flight[i], errs[i]
		if it.slot.lost {
			continue
		}
		verdict := VerdictOf(err)
		if !tried && i == 0 && p.publishing.Err() == nil {
			// A publisher that tries nothing would be called for ever.
			verdict = Unreached
		}
		switch verdict {
		case Confirmed:
			p.confirmed(it)
		case NotSent:
			if p.passes(it, now) {
				again = append(again, *it)
			}
		case Unreached:
			p.unreachedRow(it, err, now)
		case RefusedOnce, RefusedForGood:
			p.refused(it, verdict, err)
		}
	}
	return again
}

// unreachedRow holds a row whose topic could not be reached. It costs no attempt.
func (p *pump) unreachedRow(it *item, err error, now time.Time) {
	p.unreached(it, err, now)
	if it.key == nil {
		// Later rows of its key may have been set aside while it was in flight. It comes first.
		it.key = it.slot.blocked(it.dest, &it.row.Event)
	}
	p.stayHeld(it, err.Error(), now)
}

// stayHeld holds a row, which may be held already. What is in hand of its key behind it is
// not sent.
func (p *pump) stayHeld(it *item, reason string, now time.Time) {
	if k := it.key; k != nil {
		k.turn++
		k.mode, k.topic, k.first = keyHeld, it.row.Topic, it.row.Seq
	}
	if it.row.State == store.Held && it.row.Starts == 0 {
		p.back(it)
		return
	}
	p.hold(it, reason, now)
}

// refused counts an attempt and stores when the next one is, or parks the row.
func (p *pump) refused(it *item, v Verdict, err error) {
	p.reached(p.routeOf(&it.row.Event))
	attempts := it.row.Attempts + 1
	if v == RefusedForGood || attempts >= it.dest.retry.MaxAttempts {
		p.park(it, attempts, err.Error())
		return
	}
	asked, _ := RetryDelay(err)
	p.retryRow(it, store.Wait{State: store.Retrying, Attempts: attempts, After: it.dest.retry.delay(attempts, asked), Reason: err.Error()})
}

// retryRow makes the row the first of its key, and what is in hand of the key behind it
// is not sent.
func (p *pump) retryRow(it *item, w store.Wait) {
	p.wait(it, w, keyHeaded)
	if it.key != nil {
		it.key.turn++
	}
}

// broken: the publisher panicked, so any of the rows may be the cause. One that was alone is
// it; of several each goes alone from now on.
func (p *pump) broken(flight []item, err error, now time.Time) {
	for i := range flight {
		it := &flight[i]
		switch {
		case it.slot.lost:
		case len(flight) == 1:
			if it.probe {
				p.unreached(it, err, now)
			}
			attempts := it.row.Attempts + 1
			if attempts >= it.dest.retry.MaxAttempts {
				p.park(it, attempts, err.Error())
				continue
			}
			p.retryRow(it, store.Wait{State: store.Retrying, Attempts: attempts, Starts: 1, After: it.dest.retry.delay(attempts, 0), Reason: err.Error()})
		case !p.first(it):
			p.wait(it, store.Wait{State: store.Behind, Attempts: it.row.Attempts, Starts: 1, Reason: err.Error()}, 0)
		default:
			p.retryRow(it, store.Wait{State: store.Retrying, Attempts: it.row.Attempts, Starts: 1, Reason: err.Error()})
		}
	}
}

// first says whether a row of a call is the first of its key that is still to be decided.
func (p *pump) first(it *item) bool {
	if it.row.Key == nil {
		return true
	}
	k := it.key
	if k == nil {
		if k = it.slot.blocked(it.dest, &it.row.Event); k == nil {
			return true
		}
		it.key = k
		return false
	}
	return it.turn == k.turn
}
