package servers

import (
	"context"
	"fmt"
	"time"
)

// poll calls ready until it returns nil or ctx is done. The error is what stood in the way.
func poll(ctx context.Context, every time.Duration, ready func(context.Context) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		last := ready(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}
