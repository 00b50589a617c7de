package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stop begins the end: nothing new is begun, what is queued goes back.
func (p *pump) stop(now time.Time) {
	p.stopping, p.stopAt = true, now.Add(p.drain)
	p.sweep()
	p.nextSuspect()
	for _, s := range p.slots {
		if s != nil {
			s.leaving, s.closed = true, true
		}
	}
	p.log.Info("relay stops", "calls", p.running)
}

// grace is how long publishers that were cancelled may take to return.
const grace = 5 * time.Second

// ended says whether the end has been reached, and cancels calls that take too long.
func (p *pump) ended(now time.Time) bool {
	if p.busy {
		return false
	}
	held := false
	for _, s := range p.slots {
		held = held || s != nil
	}
	if !held && p.running == 0 {
		return true
	}
	if now.Before(p.stopAt) {
		return false
	}
	if p.publishing.Err() == nil {
		p.stopPublishing()
		p.stopAt = now.Add(grace)
		return false
	}
	return true
}

// leave takes the relay off the list of the living and says what was not clean.
func (p *pump) leave() error {
	ctx, cancel := context.WithTimeout(p.detached, p.storeLimit())
	defer cancel()
	var errs []error
	if p.running > 0 {
		errs = append(errs, fmt.Errorf("%d Publish calls did not return within %s after their context had ended", p.running, grace))
	}
	held := 0
	for _, s := range p.slots {
		if s != nil {
			held++
		}
	}
	if held > 0 {
		errs = append(errs, fmt.Errorf("%d slots with %d events in hand were not released; another relay takes them when the lease of %s has passed", held, p.inHand(), p.lease))
	}
	if p.lastErr != nil {
		errs = append(errs, p.lastErr)
	}
	if err := p.member.Leave(ctx); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
