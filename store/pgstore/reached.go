package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/internal/pgsql"
)

var _ store.Retention = (*Store)(nil)

// Reached implements [store.Retention]. It is one statement, which commits by itself; what the
// partitions share is not locked, so a purge is never waited for.
func (s *Store) Reached(ctx context.Context, scope store.Scope, partitions []store.Reach) error {
	partitions = pgsql.ReachOrder(partitions)
	if len(partitions) == 0 {
		return nil
	}
	logs := make(pgtype.FlatArray[[]byte], len(partitions))
	numbers := make(pgtype.FlatArray[int32], len(partitions))
	times := make(pgtype.FlatArray[pgtype.Timestamptz], len(partitions))
	for i, p := range partitions {
		logs[i], numbers[i], times[i] = []byte(p.Log), int32(p.Partition), timestamptz(p.Newest)
	}
	if _, err := s.exec(ctx, pgsql.In(s.schema, pgsql.Reached), int32(scope), logs, numbers, times); err != nil {
		return fmt.Errorf("pgstore: note what is reached: %w", s.own(err))
	}
	return nil
}
