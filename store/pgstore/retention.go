package pgstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
)

// Retained is how long a consumer's marks are kept, how far it has come, and what may be gone.
type Retained struct {
	Consumer string
	// Keep is the time asked for, or [store.Forever].
	Keep time.Duration
	// Announced: messages of before then are late. Zero where nothing was announced yet.
	Announced time.Time
	// Safe: marks of before then are removed. It follows Announced as soon as nobody works with
	// a snapshot that is older than the announcement.
	Safe time.Time
	// Reaches are its partitions, the one that is furthest behind first: what is removed follows
	// that one. An idle or forgotten partition holds everything; see [Store.ForgetPartition].
	Reaches []PartitionReach
}

// PartitionReach is how far a consumer has come in a partition.
type PartitionReach struct {
	store.Reach
	// NotedAt is when it last came further, by the server's clock.
	NotedAt time.Time
}

// Retention says of all consumers how long their marks are kept, in the order of their names. It reads
// and changes nothing.
func (s *Store) Retention(ctx context.Context) ([]Retained, error) {
	states, err := s.scopeStates(ctx)
	if err != nil {
		return nil, fmt.Errorf("pgstore: retention: %w", s.own(err))
	}
	all := make([]Retained, len(states))
	for i := range states {
		all[i] = states[i].Retained
	}
	return all, nil
}

// ForgetPartition makes removal no longer wait for a partition, for one that is gone or
// that nobody reads any more. It returns false where the consumer has none such. A partition that is
// read on comes back with the next message that is settled; the messages it still holds
// are late where they are older than what was removed meanwhile.
func (s *Store) ForgetPartition(ctx context.Context, consumer, log string, partition int) (bool, error) {
	tag, err := s.exec(ctx, "delete from "+s.schema+".reaches r using "+s.schema+`.scopes s
		where s.id = r.scope and s.name = $1 and r.log = $2 and r.partition = $3`, consumer, []byte(log), int32(partition))
	if err != nil {
		return false, fmt.Errorf("pgstore: forget %s/%d of consumer %q: %w", log, partition, consumer, s.own(err))
	}
	return tag.RowsAffected() > 0, nil
}

// scopeState is a row of scopes with its reaches.
type scopeState struct {
	Retained
	id   int32
	safe int64
}

// never is the time in milliseconds of a scope of which nothing was removed.
const never = math.MinInt64

// removes: marks of this scope may be removed, of times up to ms and later.
func (sc *scopeState) removes(ms int64) bool { return sc.Keep != store.Forever && sc.safe >= ms }

func (s *Store) scopeStates(ctx context.Context) ([]scopeState, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, s.in(`select s.id, s.name, s.keep_ms, s.purged_ms, s.safe_ms, r.log, r.partition, r.newest, r.noted_at
		from {schema}.scopes s left join {schema}.reaches r on r.scope = s.id
		order by s.name, s.id, r.newest, r.log, r.partition`))
	if err != nil {
		return nil, err
	}
	var all []scopeState
	var id int32
	var name string
	var keep *int64
	var purged, safe int64
	var log []byte
	var partition *int32
	var newest, noted *time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &name, &keep, &purged, &safe, &log, &partition, &newest, &noted}, func() error {
		if len(all) == 0 || all[len(all)-1].id != id {
			all = append(all, scopeState{id: id, safe: safe, Retained: Retained{
				Consumer: name, Keep: keptFor(keep), Announced: timeOf(purged), Safe: timeOf(safe)}})
		}
		if partition != nil {
			sc := &all[len(all)-1]
			sc.Reaches = append(sc.Reaches, PartitionReach{store.Reach{Log: string(log), Partition: int(*partition), Newest: *newest}, *noted})
		}
		return nil
	})
	return all, err
}

func keptFor(ms *int64) time.Duration {
	if ms == nil {
		return store.Forever
	}
	return time.Duration(*ms) * time.Millisecond
}

func timeOf(ms int64) time.Time {
	if ms == never {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
