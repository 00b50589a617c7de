package consumers

import (
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// Action is what a consumer does with a message next.
type Action uint8

const (
	// Ack: the message is settled, the broker may forget it.
	Ack Action = iota + 1
	// Retry: the message stays where it is and is processed again after the delay.
	Retry
	// Bury: the message is given up. It is acknowledged once its dead letter is committed.
	Bury
	// Stop: the consumer ends with the error. Nothing is acknowledged.
	Stop
)

func (a Action) String() string {
	switch a {
	case Ack:
		return "ack"
	case Retry:
		return "retry"
	case Bury:
		return "bury"
	case Stop:
		return "stop"
	default:
		return "no action"
	}
}

// Decision is the answer of a [Policy].
type Decision struct {
	Action Action
	// After is the delay of a Retry.
	After time.Duration
	// Spent says that the result used up one of the message's attempts.
	Spent bool
}

// Policy turns results into decisions. The zero value is not usable; start from [DefaultPolicy].
type Policy struct {
	// MaxAttempts is how often a message may fail by its own fault before it is buried.
	MaxAttempts int
	// MinDelay and MaxDelay bound the delay between attempts, which doubles and is
	// spread at random by half of itself to either side.
	MinDelay, MaxDelay time.Duration
}

// DefaultPolicy gives a message ten attempts over somewhat less than two minutes.
func DefaultPolicy() Policy {
	return Policy{MaxAttempts: 10, MinDelay: 200 * time.Millisecond, MaxDelay: time.Minute}
}

// Validate says which field is wrong and what would be right.
func (p Policy) Validate() error {
	switch {
	case p.MaxAttempts < 1:
		return fmt.Errorf("MaxAttempts is %d: the first run is an attempt, so 1 is the least", p.MaxAttempts)
	case p.MinDelay <= 0:
		return fmt.Errorf("MinDelay is %s: it must be above zero", p.MinDelay)
	case p.MaxDelay < p.MinDelay:
		return fmt.Errorf("MaxDelay is %s: it must not be below MinDelay, %s", p.MaxDelay, p.MinDelay)
	}
	return nil
}

// Decide is pure but for the jitter of the delay. Attempt counts the attempts spent
// before this result; streak counts the results in a row, this one included, that were
// not settled, for whatever reason: it paces retries that spend no attempt.
//
//	outcome                     attempts left     none left
//	applied, duplicate,         ack               ack
//	buried, parked
//	mismatched, late            bury              bury
//	unknown                     retry             retry
//	failed: the context ended   stop              stop
//	failed: setup               stop              stop
//	failed: conflict, busy,     retry             retry
//	        outage
//	failed: permanent, bad key  bury, spent       bury, spent
//	failed: anything else       retry, spent      bury, spent
//
// Mismatched and late messages have not run, so they spend no attempt: to bury them is to put
// them where a person sees them.
func (p Policy) Decide(r dedup.Result, attempt, streak int) Decision {
	switch {
	case r.Outcome.Settled():
		return Decision{Action: Ack}
	case r.Outcome == dedup.Mismatched, r.Outcome == dedup.Late:
		return Decision{Action: Bury}
	case r.Outcome == dedup.Unknown:
		return Decision{Action: Retry, After: p.Delay(streak)}
	case r.Fault == store.FaultSetup, r.Fault == store.FaultCanceled:
		return Decision{Action: Stop}
	case r.Fault == store.FaultHandler && dedup.IsPermanent(r.Err):
		return Decision{Action: Bury, Spent: true}
	case r.Fault != store.FaultHandler:
		return Decision{Action: Retry, After: p.Delay(streak)}
	case attempt+1 >= p.MaxAttempts:
		return Decision{Action: Bury, Spent: true}
	}
	after := p.Delay(streak)
	if asked, ok := dedup.RetryDelay(r.Err); ok {
		after = max(asked, 0)
	}
	return Decision{Action: Retry, After: after, Spent: true}
}

// Delay returns the pause before the retry that follows the n-th failure in a row.
func (p Policy) Delay(n int) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(p.MinDelay),
		backoff.WithMaxInterval(p.MaxDelay),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxElapsedTime(0),
	)
	delay := b.NextBackOff()
	// After 64 doublings every interval has reached its limit.
	for range min(n, 64) - 1 {
		delay = b.NextBackOff()
	}
	return min(delay, p.MaxDelay)
}
