package pgstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/store"
)

// What is older than the consumer wants it kept goes, counted back from the newest message it
// has settled, and comes back as late.
func TestPurgeRemovesWhatIsOlder(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s := newStore(t, pool)
	scope, now := keptScope(t, s, "consumer", 2*day), time.Now()
	for i, age := range []time.Duration{300 * day, 10 * day, 6 * day, 4 * day, 2 * day, time.Hour} {
		commitMarks(t, s, aged(scope, now.Add(-age), string(rune('a'+i)))...)
	}
	if done := purge(t, s); done.Rows() != 0 || len(done.Emptied)+len(done.Dropped) != 0 {
		t.Errorf("before anything was heard of the consumer: %+v", done)
	}
	wantRows(t, pool, scope, 6, 6)

	reach(t, s, scope, 0, now.Add(-3*day)) // so five days and more are too old
	done := purge(t, s)
	wantRows(t, pool, scope, 3, 3)
	c := byConsumer(t, done, "consumer")
	if want := now.Add(-5 * day).Truncate(time.Millisecond); !c.Safe.Equal(want) || !c.Announced.Equal(want) || !c.Before.IsZero() {
		t.Errorf("announced %s, safe %s, before %s, want %s", c.Announced, c.Safe, c.Before, want)
	}
	if c.Rows != 4 || len(done.Emptied) != 2 || len(done.Dropped) < 8 {
		t.Errorf("%d rows, emptied %v, dropped %v", c.Rows, done.Emptied, done.Dropped)
	}
	attached := queryOne[int64](t, pool, "select count(*) from pg_inherits where inhparent = 'semel.marks_timed'::regclass")
	if n := len(partitions(t, pool)); int(attached) != n+1 {
		t.Errorf("%d partitions are attached and %d recorded", attached, n)
	}

	for _, mark := range aged(scope, now.Add(-6*day), "c") {
		wantMark(t, s, mark, store.Late)
	}
	for _, mark := range aged(scope, now.Add(-6*day), "never seen") {
		wantMark(t, s, mark, store.Late)
	}
	for _, mark := range aged(scope, now.Add(-4*day), "d") {
		wantMark(t, s, mark, store.Seen)
	}
	for _, mark := range aged(scope, now.Add(-4*day), "new") {
		wantMark(t, s, mark, store.New)
	}
}

// Times that lie on a boundary: what is as old as the limit stays.
func TestPurgeKeepsTheLimitItself(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	scope, now := keptScope(t, s, "consumer", day), time.Now().Truncate(time.Millisecond)
	exec(t, pool, "delete from semel.mark_partitions")
	exec(t, pool, "do $$ declare p text; begin for p in select inhrelid::regclass from pg_inherits where inhparent = 'semel.marks_timed'::regclass and inhrelid <> 'semel.marks_timed_rest'::regclass loop execute 'drop table ' || p; end loop; end $$")
	limit := now.Add(-day)
	commitMarks(t, s, append(aged(scope, limit, "at"), aged(scope, limit.Add(-time.Millisecond), "before")...)...)
	reach(t, s, scope, 0, now)
	purge(t, s)
	wantRows(t, pool, scope, 1, 1)
	for _, mark := range aged(scope, limit, "at") {
		wantMark(t, s, mark, store.Seen)
	}
	for _, mark := range aged(scope, limit.Add(-time.Millisecond), "before") {
		wantMark(t, s, mark, store.Late)
	}
}

// The partition that is furthest behind decides, until somebody says that it is gone.
func TestPurgeFollowsThePartitionFurthestBehind(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s := newStore(t, pool)
	scope, now := keptScope(t, s, "consumer", 2*day), time.Now()
	old := aged(scope, now.Add(-6*day), "m")
	commitMarks(t, s, old...)
	reach(t, s, scope, 0, now)
	reach(t, s, scope, 1, now.Add(-5*day))
	done := purge(t, s)
	wantRows(t, pool, scope, 1, 1)
	c := byConsumer(t, done, "consumer")
	if len(c.Reaches) != 2 || c.Reaches[0].Partition != 1 || c.Reaches[0].Log != "log" || !c.Reaches[0].Newest.Equal(now.Add(-5*day).Truncate(time.Microsecond)) {
		t.Errorf("the report says %+v", c.Reaches)
	}
	if there, err := s.ForgetPartition(t.Context(), "consumer", "log", 7); there || err != nil {
		t.Error(there, err)
	}
	if there, err := s.ForgetPartition(t.Context(), "consumer", "log", 1); !there || err != nil {
		t.Error(there, err)
	}
	purge(t, s)
	wantRows(t, pool, scope, 0, 0)
	for _, mark := range old {
		wantMark(t, s, mark, store.Late)
	}

	// Coming back does not take back what was removed.
	reach(t, s, scope, 1, now.Add(-12*day))
	for _, mark := range old {
		wantMark(t, s, mark, store.Late)
	}
	purge(t, s)
	all, err := s.Retention(t.Context())
	if err != nil || len(all) != 1 || all[0].Keep != 2*day || !all[0].Safe.Equal(now.Add(-2*day).Truncate(time.Millisecond)) || len(all[0].Reaches) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A consumer that keeps its marks for ever keeps its partitions too; the others' marks in them go
// row by row, and only when the partition will not go whole soon.
func TestPurgeBesideAConsumerThatKeepsForEver(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s := newStore(t, pool)
	scope, forever, now := keptScope(t, s, "consumer", 2*day), keptScope(t, s, "forever", store.Forever), time.Now()
	for _, age := range []time.Duration{9 * day, 7 * day} {
		for range 3 {
			at := now.Add(-age)
			commitMarks(t, s, append(aged(scope, at, time.Now().String()), aged(forever, at, time.Now().String())...)...)
		}
	}
	reach(t, s, forever, 0, now)
	// The older partition is past by more than its own width, the younger one is not.
	p := partitionOf(t, pool, now.Add(-7*day))
	reach(t, s, scope, 0, time.UnixMilli(p.ToMS).Add(2*day+time.Hour))
	done := purge(t, s)
	wantRows(t, pool, scope, 3, 0)
	wantRows(t, pool, forever, 6, 6)
	if len(done.Emptied) != 0 || byConsumer(t, done, "consumer").Rows != 9 {
		t.Errorf("%+v", done)
	}
	for _, name := range done.Dropped {
		if name == p.Name {
			t.Errorf("%s was dropped", name)
		}
	}
	reach(t, s, scope, 0, now)
	purge(t, s)
	wantRows(t, pool, scope, 0, 0)
	wantRows(t, pool, forever, 6, 6)

	// When it is content with less, the partitions go.
	keptScope(t, s, "forever", 3*day)
	done = purge(t, s)
	wantRows(t, pool, forever, 0, 0)
	if len(done.Emptied) != 2 {
		t.Errorf("emptied %v", done.Emptied)
	}
}

func partitionOf(t *testing.T, pool *pgxpool.Pool, at time.Time) partition {
	t.Helper()
	for _, p := range partitions(t, pool) {
		if ms := at.UnixMilli(); p.FromMS <= ms && ms < p.ToMS {
			return p
		}
	}
	t.Fatalf("no partition holds %s", at)
	return partition{}
}

// A scope that nobody knows any more, and one that has not come so far, keep what is theirs.
func TestPurgeKeepsAPartitionThatIsNeeded(t *testing.T) {
	t.Parallel()
	pool := withDays(t)
	s := newStore(t, pool)
	now := time.Now()
	scope, behind := keptScope(t, s, "consumer", day), keptScope(t, s, "behind", day)
	at := now.Add(-6 * day)
	commitMarks(t, s, timedMark(scope, at, "m"), timedMark(behind, at, "m"))
	exec(t, pool, "insert into semel.marks_timed (scope, key) values (999, $1)", timedMark(999, at.Add(-day), "m").Key.ID.String())
	reach(t, s, scope, 0, now)
	reach(t, s, behind, 0, now.Add(-10*day))
	done := purge(t, s)
	if n := rowsOf(t, pool, "marks_timed", scope); n != 0 {
		t.Errorf("%d marks stay of the consumer that is done", n)
	}
	if rowsOf(t, pool, "marks_timed", behind) != 1 || rowsOf(t, pool, "marks_timed", 999) != 1 {
		t.Error("marks are gone that are needed")
	}
	wantMark(t, s, timedMark(behind, at, "m"), store.Seen)
	for _, name := range done.Dropped {
		if p := partitionOf(t, pool, now.Add(-11*day)); name >= p.Name {
			t.Errorf("%s was dropped, though a consumer works at the time of %s", name, p.Name)
		}
	}
}

func TestReachedIgnoresWhatIsWrong(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	scope, now := keptScope(t, s, "consumer", day), time.Now()
	newest := func() time.Time {
		all, err := s.Retention(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(all[0].Reaches) == 0 {
			return time.Time{}
		}
		return all[0].Reaches[0].Newest
	}
	reach(t, s, scope, 0, now.Add(time.Hour))
	reach(t, s, scope, 0, time.UnixMilli(1<<62))
	if at := newest(); !at.IsZero() {
		t.Errorf("it reaches to %s", at)
	}
	if err := s.Reached(t.Context(), scope, []store.Reach{
		{Log: "log", Newest: now.Add(-3 * day)}, {Log: "log", Newest: now.Add(-2 * day)}, {Log: "log", Newest: now.Add(-4 * day)},
	}); err != nil {
		t.Fatal(err)
	}
	if at := newest(); !at.Equal(now.Add(-2 * day).Truncate(time.Microsecond)) {
		t.Errorf("it reaches to %s", at)
	}
	reach(t, s, scope, 0, now.Add(-3*day))
	if at := newest(); !at.Equal(now.Add(-2 * day).Truncate(time.Microsecond)) {
		t.Errorf("it went back to %s", at)
	}
	// A broker's clock that is a little ahead is cut, not passed over.
	reach(t, s, scope, 0, now.Add(30*time.Second))
	if at := newest(); at.Before(now.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("it reaches to %s", at)
	}
	if err := s.Reached(t.Context(), scope, nil); err != nil {
		t.Error(err)
	}
	// No time is the clock's, also beside one that has a time.
	before := newest()
	if err := s.Reached(t.Context(), scope, []store.Reach{{Log: "log", Newest: now.Add(-day)}, {Log: "log"}}); err != nil {
		t.Fatal(err)
	}
	if at := newest(); !at.After(before) {
		t.Errorf("it reaches to %s, as before", at)
	}
}

func TestPurgeRemovesWhatElseExpired(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	s := newStore(t, pool)
	scope := keptScope(t, s, "consumer", 40*day)
	for i, age := range []string{"50 days", "35 days", "1 day"} {
		if _, err := s.Spend(t.Context(), scope, store.DigestKey([]byte{byte(i)})); err != nil {
			t.Fatal(err)
		}
		exec(t, pool, "update semel.attempts set at = at - $1::interval where at > now() - interval '1 minute'", age)
	}
	for i, c := range []struct{ until, keep string }{{"-2 days", "-2 days"}, {"-2 days", "1 day"}, {"-1 hour", "-1 hour"}, {"1 day", "1 day"}} {
		if _, err := s.Claim(t.Context(), store.LeaseKey{byte(i)}, store.ClaimParams{Lease: time.Hour, Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
		exec(t, pool, "update semel.leases set until = now() + $2::interval, keep_until = now() + $3::interval where get_byte(key, 0) = $1 and key not in (select key from semel.leases where released)", i, c.until, c.keep)
	}
	done := purge(t, s)
	if done.Attempts != 1 || done.Leases != 1 {
		t.Errorf("%d attempts and %d leases went, want one of each", done.Attempts, done.Leases)
	}
	if n := queryOne[int64](t, pool, "select count(*) from semel.attempts"); n != 2 {
		t.Errorf("%d attempts stay", n)
	}
	if n := queryOne[int64](t, pool, "select count(*) from semel.leases where length(key) = 32"); n != 4 { // one is the purger's
		t.Errorf("%d leases stay", n)
	}

}
