package outbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Retry says how often and in what pauses a refused event is tried again.
type Retry struct {
	// MaxAttempts is how often an event may be refused before it is parked.
	MaxAttempts int
	// MinDelay and MaxDelay bound the pause, which doubles with each attempt and is spread at
	// random by half of itself to either side.
	MinDelay, MaxDelay time.Duration
	// Delays, where given, are the pauses one by one instead, each counted from the
	// failure before it and lengthened at random by up to a tenth; the last one is used for all
	// further attempts.
	Delays []time.Duration
}

func (r Retry) validate() error {
	if r.MaxAttempts < 1 {
		return fmt.Errorf("MaxAttempts is %d: the first try is an attempt, so 1 is the least", r.MaxAttempts)
	}
	if len(r.Delays) > 0 {
		for i, d := range r.Delays {
			if d < 0 {
				return fmt.Errorf("Delays[%d] is %s: it must not be negative", i, d)
			}
		}
		if r.MinDelay != 0 || r.MaxDelay != 0 {
			return errors.New("Delays are given and MinDelay or MaxDelay as well: choose one of the two")
		}
		return nil
	}
	switch {
	case r.MinDelay <= 0:
		return fmt.Errorf("MinDelay is %s: it must be above zero", r.MinDelay)
	case r.MaxDelay < r.MinDelay:
		return fmt.Errorf("MaxDelay is %s: it must not be below MinDelay, %s", r.MaxDelay, r.MinDelay)
	}
	return nil
}

// delay is the pause after the n-th failure, no shorter than what was asked for.
func (r Retry) delay(n int, asked time.Duration) time.Duration {
	return max(r.own(n), above(asked))
}

func (r Retry) own(n int) time.Duration {
	if len(r.Delays) > 0 {
		return above(r.Delays[min(max(n, 1), len(r.Delays))-1])
	}
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(r.MinDelay),
		backoff.WithMaxInterval(r.MaxDelay),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxElapsedTime(0),
	)
	d := b.NextBackOff()
	// After 64 doublings every pause has reached its limit.
	for range min(n, 64) - 1 {
		d = b.NextBackOff()
	}
	return min(d, r.MaxDelay)
}

// above lengthens a pause at random by up to a tenth: those who asked for it are not all to
// come back at the same moment, and none of them too early.
func above(d time.Duration) time.Duration {
	if d < 10 {
		return max(d, 0)
	}
	return d + rand.N(d/10)
}
