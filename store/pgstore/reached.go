package pgstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/semel-dev/semel/store"
)

var _ store.Retention = (*Store)(nil)

// reached ignores what is later than the server's clock: one message that a producer has dated to
// the year 3000 must not carry off the marks of the others. A minute is granted, and cut off,
// because the clocks of brokers and servers differ: a consumer that is never behind by
// more than its broker's clock is ahead would never be heard otherwise. Without a time, which is null
// here and passed over by least, it is the clock that counts.
const reached = `insert into %s.reaches as r (scope, log, partition, newest)
select $1, m.log, m.partition, least(m.newest, now())
from unnest($2::bytea[], $3::int[], $4::timestamptz[]) as m (log, partition, newest)
where m.newest is null or m.newest <= now() + interval '1 minute'
on conflict (scope, log, partition) do update set newest = excluded.newest, noted_at = now()
where r.newest < excluded.newest`

// Reached implements [store.Retention]. It is one statement, which commits by itself; what the
// partitions share is not locked, so a purge is never waited for.
func (s *Store) Reached(ctx context.Context, scope store.Scope, partitions []store.Reach) error {
	partitions = inOrder(partitions)
	if len(partitions) == 0 {
		return nil
	}
	logs := make(pgtype.FlatArray[[]byte], len(partitions))
	numbers := make(pgtype.FlatArray[int32], len(partitions))
	times := make(pgtype.FlatArray[pgtype.Timestamptz], len(partitions))
	for i, p := range partitions {
		logs[i], numbers[i], times[i] = []byte(p.Log), int32(p.Partition), timestamptz(p.Newest)
	}
	if _, err := s.exec(ctx, fmt.Sprintf(reached, s.schema), int32(scope), logs, numbers, times); err != nil {
		return fmt.Errorf("pgstore: note what is reached: %w", s.own(err))
	}
	return nil
}

// inOrder keeps the newest of each partition, because one statement cannot change a row twice; no
// time is the newest of all. The order is the same in every process, so that two that report
// the same partitions wait for each other rather than for ever.
func inOrder(partitions []store.Reach) []store.Reach {
	sorted := slices.Clone(partitions)
	slices.SortFunc(sorted, func(a, b store.Reach) int {
		c := cmp.Or(bytes.Compare([]byte(a.Log), []byte(b.Log)), cmp.Compare(a.Partition, b.Partition))
		switch {
		case c != 0 || a.Newest.Equal(b.Newest):
			return c
		case a.Newest.IsZero():
			return -1
		case b.Newest.IsZero():
			return 1
		}
		return b.Newest.Compare(a.Newest)
	})
	return slices.CompactFunc(sorted, func(a, b store.Reach) bool { return a.Log == b.Log && a.Partition == b.Partition })
}
