package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

// Reached implements [store.Retention]. It is one statement, which commits by itself; what the
// partitions share is not locked, so a purge is never waited for.
func (s *Store) Reached(ctx context.Context, scope store.Scope, partitions []store.Reach) error {
	partitions = pgsql.ReachOrder(partitions)
	if len(partitions) == 0 {
		return nil
	}
	logs := make([][]byte, len(partitions))
	numbers := make([]int32, len(partitions))
	times := make([]time.Time, len(partitions))
	for i, p := range partitions {
		logs[i], numbers[i], times[i] = []byte(p.Log), int32(p.Partition), pgsql.Clamp(p.Newest)
	}
	if _, err := s.exec(ctx, pgsql.Reached, int64(scope), bytesArray(logs), intArray(numbers), timeArray(times)); err != nil {
		return fmt.Errorf("sqlstore: note what is reached: %w", s.own(ctx, err))
	}
	return nil
}
