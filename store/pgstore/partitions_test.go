package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

const (
	week = 7 * 24 * time.Hour
	year = 365 * 24 * time.Hour
)

// partition is one row of the store's own record of its partitions.
type partition struct {
	Name         string
	FromMS, ToMS int64
}

func partitions(t *testing.T, pool *pgxpool.Pool) []partition {
	t.Helper()
	rows, err := pool.Query(t.Context(), "select name, from_ms, to_ms from semel.mark_partitions order by from_ms")
	if err != nil {
		t.Fatal(err)
	}
	ps, err := pgx.CollectRows(rows, pgx.RowToStructByPos[partition])
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

func TestPartitionsReachFromTwoWeeksBehindToHalfAYearAhead(t *testing.T) {
	t.Parallel()
	pool := newPool(t, servertest.Postgres(t))
	if err := pgstore.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	now, ps := time.Now(), partitions(t, pool)
	if n := len(ps); n != 29 {
		t.Errorf("%d partitions, want 29: two weeks, this week and 26 weeks", n)
	}
	if from := time.UnixMilli(ps[0].FromMS); from.After(now.Add(-2*week)) || from.Before(now.Add(-3*week)) {
		t.Errorf("they begin at %s", from)
	}
	if to := time.UnixMilli(ps[len(ps)-1].ToMS); to.Before(now.Add(26*week)) || to.After(now.Add(27*week)) {
		t.Errorf("they end at %s", to)
	}
	for i, p := range ps {
		if i > 0 && p.FromMS != ps[i-1].ToMS {
			t.Errorf("%s begins at %d, and the one before ends at %d", p.Name, p.FromMS, ps[i-1].ToMS)
		}
		bounds := queryOne[string](t, pool, "select pg_get_expr(relpartbound, oid) from pg_class where oid = ('semel.' || quote_ident($1))::regclass", p.Name)
		want := fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", lowest(p.FromMS), lowest(p.ToMS))
		if bounds != want {
			t.Errorf("%s is %s, want %s", p.Name, bounds, want)
		}
	}
	attached := queryOne[int64](t, pool, "select count(*) from pg_inherits where inhparent = 'semel.marks_timed'::regclass")
	if int(attached) != len(ps)+1 {
		t.Errorf("%d partitions are attached and %d recorded", attached, len(ps))
	}
	if err := pgstore.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if n := len(partitions(t, pool)); n != len(ps) {
		t.Errorf("a second run makes %d of %d", n, len(ps))
	}
}

// lowest is the smallest UUID that begins with a time.
func lowest(ms int64) store.ID {
	id := store.TimedKey(time.UnixMilli(ms), nil).ID
	clear(id[6:])
	return id
}

// where returns the partition that holds a mark.
func where(t *testing.T, pool *pgxpool.Pool, mark store.Mark) string {
	t.Helper()
	return queryOne[string](t, pool, "select c.relname::text from semel.marks_timed m join pg_class c on c.oid = m.tableoid where m.scope = $1 and m.key = $2",
		int32(mark.Scope), mark.Key.ID.String())
}

func TestMarksLandInTheirPartition(t *testing.T) {
	t.Parallel()
	pool := newPool(t, servertest.Postgres(t))
	if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(week, 3*week)); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, pool)
	scope, ps := scopeOf(t, s), partitions(t, pool)
	first, last := ps[0], ps[len(ps)-1]
	for at, want := range map[time.Time]string{
		time.UnixMilli(first.FromMS - 1):              "marks_timed_rest",
		time.UnixMilli(first.FromMS):                  first.Name,
		time.UnixMilli(first.ToMS - 1):                first.Name,
		time.UnixMilli(first.ToMS):                    ps[1].Name,
		time.UnixMilli(last.ToMS - 1):                 last.Name,
		time.UnixMilli(last.ToMS):                     "marks_timed_rest",
		time.Unix(0, 0):                               "marks_timed_rest",
		time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC):   "marks_timed_rest",
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC): "marks_timed_rest",
	} {
		mark := timedMark(scope, at, "m")
		end, err := begin(t, s, mark).Commit(t.Context())
		wantEnd(t, end, err, store.Committed)
		if got := where(t, pool, mark); got != want {
			t.Errorf("%s is in %s, want %s", at, got, want)
		}
		wantMark(t, s, mark, store.Seen)
	}
}

// A producer that writes nanoseconds where milliseconds belong: its messages can be handled
// and buried, and their keys tell them apart.
func TestTimesBeyondTheDatabases(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	scope, ctx := scopeOf(t, s), t.Context()
	for _, at := range []time.Time{
		time.UnixMilli(time.Now().UnixNano()), time.UnixMilli(-1 << 62), time.UnixMilli(1<<63 - 1),
		time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		plain := plainMark(scope, at.String())
		plain.Time = at
		marks := []store.Mark{plain, timedMark(scope, at, "m"), timedMark(scope, at.Add(time.Hour), "m")}
		u, status, err := s.Begin(ctx, marks)
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		for i := range status {
			if status[i] != store.New {
				t.Errorf("%s: mark %d is %s", at, i, status[i])
			}
		}
		if err := s.BuryTx(ctx, u.Tx(), store.DeadLetter{Consumer: "consumer", Time: at, Reason: "no"}); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		end, err := u.Commit(ctx)
		wantEnd(t, end, err, store.Committed)
		wantMark(t, s, plain, store.Seen)
	}
	if dead, err := s.ListDead(ctx, store.LetterFilter{}, 0, 100); err != nil || len(dead) != 5 {
		t.Errorf("%d letters, %v", len(dead), err)
	}
}

func TestRestMovesToItsPartition(t *testing.T) {
	t.Parallel()
	pool := migrated(t) // a year's partition
	s := newStore(t, pool)
	scope := scopeOf(t, s)
	var marks []store.Mark
	for i := range 20 {
		marks = append(marks, timedMark(scope, time.Now().Add(2*year+time.Duration(i)*5*week), "m"))
	}
	stay := timedMark(scope, time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), "m")
	u, _, err := s.Begin(t.Context(), append([]store.Mark{stay}, marks...))
	if err != nil {
		t.Fatal(err)
	}
	end, err := u.Commit(t.Context())
	wantEnd(t, end, err, store.Committed)
	for _, mark := range marks {
		if in := where(t, pool, mark); in != "marks_timed_rest" {
			t.Fatalf("a mark is in %s", in)
		}
	}
	if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(10*week, 5*year)); err != nil {
		t.Fatal(err)
	}
	for i, mark := range marks {
		if in := where(t, pool, mark); in == "marks_timed_rest" {
			t.Errorf("mark %d has stayed in the rest", i)
		}
		wantMark(t, s, mark, store.Seen)
	}
	if in := where(t, pool, stay); in != "marks_timed_rest" {
		t.Errorf("the mark of 1900 is in %s", in)
	}
	wantMark(t, s, stay, store.Seen)
}
