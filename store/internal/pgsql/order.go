package pgsql

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

// CompareMarks is the order in which marks are set, in every process and with every client: two
// batches that overlap then wait for each other rather than for ever.
func CompareMarks(a, b *store.Mark) int {
	if a.Key.Timed != b.Key.Timed {
		if a.Key.Timed {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), bytes.Compare(a.Key.ID[:], b.Key.ID[:]))
}

// Differ tells fingerprints that contradict each other: one that is missing matches every other.
func Differ(a, b store.ID) bool { return !a.IsZero() && !b.IsZero() && a != b }

// OwnMillis is the time by which a mark is removed; one without goes by the server's clock.
func OwnMillis(m *store.Mark) int64 {
	at := m.OwnTime()
	if at.IsZero() {
		return math.MaxInt64
	}
	return at.UnixMilli()
}

// The server's range, nearly.
var (
	earliest = time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(294000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Clamp cuts a message's time to what the server can keep. A producer may have written
// nanoseconds where milliseconds belong: refused it would make a message that can be neither
// handled nor buried. No key depends on it. The zero Time stays as it is.
func Clamp(at time.Time) time.Time {
	switch {
	case at.IsZero():
		return at
	case at.Before(earliest):
		return earliest
	case at.After(latest):
		return latest
	}
	return at
}

// KeepMillis is the argument for how long marks are kept: null for ever.
func KeepMillis(keep time.Duration) *int64 {
	if keep == store.Forever {
		return nil
	}
	ms := keep.Milliseconds()
	return &ms
}

// ReachOrder keeps the newest of each partition, because one statement cannot change a row
// twice; no time is the newest, because it is the server's clock. The order is the same in every
// process, so that two that report the same partitions wait for each other rather than for ever.
func ReachOrder(partitions []store.Reach) []store.Reach {
	sorted := slices.Clone(partitions)
	slices.SortFunc(sorted, func(a, b store.Reach) int {
		newest := b.Newest.Compare(a.Newest)
		if a.Newest.IsZero() || b.Newest.IsZero() {
			newest = -newest
		}
		return cmp.Or(cmp.Compare(a.Log, b.Log), cmp.Compare(a.Partition, b.Partition), newest)
	})
	return slices.CompactFunc(sorted, func(a, b store.Reach) bool { return a.Log == b.Log && a.Partition == b.Partition })
}
