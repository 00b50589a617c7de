package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func TestNothingIsPublishedBeforeTheCommitNorAfterARollback(t *testing.T) {
	b := newBox(t)
	rec := newRecorder(nil)
	queue := watch(b.store)
	relay, err := outbox.NewRelay(queue, map[string]outbox.Publisher{"kafka": rec}, fast()...)
	if err != nil {
		t.Fatal(err)
	}
	start(t, relay)
	kept, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for tx, kind := range map[pgx.Tx]string{kept: "kept", gone: "gone"} {
		if err := b.out.WriteTx(t.Context(), tx, event("kafka", "a", kind), event("kafka", "", kind)); err != nil {
			t.Fatal(err)
		}
	}
	b.write(event("kafka", "a", "meanwhile"))
	rec.wait(t, 1)
	if err := gone.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	queue.further(t, 2) // past it, and with nothing of the rows under way
	if n := rec.count(); n != 1 {
		t.Errorf("%d events came before the commit", n-1)
	}
	if err := kept.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec.wait(t, 3)
	for _, e := range rec.events() {
		if e.Type == "gone" {
			t.Error("an event came that was rolled back")
		}
	}
}

// owners are the relays that hold slots, with how many.
func (b *box) owners() map[string]int {
	b.t.Helper()
	rows, err := b.pool.Query(context.Background(), "select owner, count(*) from semel.outbox_slots where owner is not null and until > now() group by owner")
	if err != nil {
		b.t.Fatal(err)
	}
	owners := map[string]int{}
	var owner string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&owner, &n}, func() error {
		name, _, _ := strings.Cut(owner, "-")
		owners[name] += n
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	return owners
}

func TestRelaysShareTheSlotsAndTakeOverFromOneThatStops(t *testing.T) {
	b := newBox(t)
	noLeaks(t)
	recs := map[string]*recorder{"a": newRecorder(nil), "b": newRecorder(nil), "c": newRecorder(nil)}
	stops := map[string]func(){}
	for _, name := range []string{"a", "b", "c"} {
		stops[name] = b.run(map[string]outbox.Publisher{"kafka": recs[name]}, outbox.WithName(name), outbox.WithLease(time.Hour))
	}
	eventually(t, "each has a third", func() bool {
		o := b.owners()
		return o["a"] >= 20 && o["b"] >= 20 && o["c"] >= 20
	})
	var events []store.Event
	for i := range 300 {
		events = append(events, event("kafka", fmt.Sprint("k", i), "x"))
	}
	b.write(events...)
	eventually(t, "all have come", func() bool { return recs["a"].count()+recs["b"].count()+recs["c"].count() == 300 })
	for name, rec := range recs {
		if rec.count() == 0 {
			t.Errorf("relay %s has sent nothing", name)
		}
	}
	// The lease is an hour: what they gave back is taken because they gave it back.
	stops["a"]()
	stops["b"]()
	eventually(t, "the third has all", func() bool { return b.owners()["c"] == store.Slots })
	if n := b.count("select count(*) from semel.outbox_slots where clean"); n != 0 {
		t.Errorf("%d slots are marked as given back", n)
	}
	before := recs["c"].count()
	b.write(events...)
	recs["c"].wait(t, before+300)
	stops["c"]()
	if n := b.count("select count(*) from semel.outbox_slots where clean and owner is null"); n != store.Slots {
		t.Errorf("%d slots were given back, want all", n)
	}
	if n := b.count("select count(*) from semel.outbox_relays"); n != 0 {
		t.Errorf("%d relays are on the list of the living", n)
	}
}

func TestStopFinishesWhatIsUnderWayAndNothingElse(t *testing.T) {
	b := newBox(t)
	begun, finish := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	rec := newRecorder(func(context.Context, store.Event) error {
		once()
		<-finish
		return nil
	})
	log, stopping := listen(t, "relay stops")
	stop := b.run(map[string]outbox.Publisher{"kafka": rec}, outbox.WithCalls(1), outbox.WithBatch(1), log)
	b.write(event("kafka", "a", "0"), event("kafka", "a", "1"))
	<-begun
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	stopping()
	close(finish)
	<-stopped
	if n := rec.count(); n != 1 {
		t.Errorf("%d events were sent, want the one that was under way", n)
	}
	if n := b.left(); n != 1 {
		t.Errorf("%d events are left, want 1", n)
	}
}

func TestStopCancelsCallsThatOutlastTheDrainLimit(t *testing.T) {
	b := newBox(t)
	begun := make(chan struct{})
	rec := newRecorder(func(ctx context.Context, _ store.Event) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	stop := b.run(map[string]outbox.Publisher{"kafka": rec}, outbox.WithDrain(50*time.Millisecond))
	b.write(event("kafka", "a", "0"))
	<-begun
	start := time.Now()
	stop()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if n := b.count("select count(*) from semel.outbox_slots where clean and owner is null"); n != store.Slots {
		t.Errorf("%d slots were given back, want all", n)
	}
	if n := b.left(); n != 1 {
		t.Errorf("%d events are left, want 1", n)
	}
}

func TestStopGivesBackSlotsThatComeWhileItStops(t *testing.T) {
	b := newBox(t)
	proxy := servertest.Proxy(t, b.dsn)
	pool := connect(t, proxy.DSN())
	s, _ := openBox(t, pool)
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	queue := watch(s)
	log, stopping := listen(t, "relay stops")
	relay, err := outbox.NewRelay(queue, map[string]outbox.Publisher{"kafka": newRecorder(nil)}, fast(outbox.WithLease(time.Hour), log)...)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	queue.until(t, "it asks for its slots", func() bool { return queue.holds > 0 })
	cancel()
	stopping()
	proxy.Thaw()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := b.count("select count(*) from semel.outbox_slots where clean and owner is null and token > 0"); n != store.Slots {
		t.Errorf("%d slots were given back, want all", n)
	}
}

// A relay that is cut off while it publishes loses its slots. What it learns later from its
// destination changes nothing about what its successor has decided.
func TestRelayThatSleptThroughItsLeaseChangesNothing(t *testing.T) {
	b := newBox(t)
	proxy := servertest.Proxy(t, b.dsn)
	cut := connect(t, proxy.DSN())
	s, _ := openBox(t, cut)
	begun, wake := make(chan struct{}), make(chan struct{})
	old := newRecorder(func(context.Context, store.Event) error {
		close(begun)
		<-wake
		return nil
	})
	queue := watch(s)
	relay, err := outbox.NewRelay(queue, map[string]outbox.Publisher{"kafka": old}, fast(outbox.WithName("old"))...)
	if err != nil {
		t.Fatal(err)
	}
	stopOld := start(t, relay)
	b.write(event("kafka", "a", "0"))
	<-begun
	proxy.Freeze()

	again, refuse := make(chan struct{}), make(chan struct{})
	successor := newRecorder(func(context.Context, store.Event) error {
		close(again)
		<-refuse
		return outbox.Permanent(errors.New("no"))
	})
	b.run(map[string]outbox.Publisher{"kafka": successor}, outbox.WithName("new"))
	<-again
	close(wake)
	proxy.Thaw()
	eventually(t, "the old one works again", func() bool { return b.owners()["old"] > 0 })
	old.wait(t, 1)
	queue.further(t, 3) // with what it has learnt from its destination settled, or dropped
	if n := b.left(); n != 1 {
		t.Fatalf("%d events are left, want the one that the new relay has in hand", n)
	}
	close(refuse)
	eventually(t, "the event is as the new one has it", func() bool { return b.waiting("parked") == 1 })
	stopOld()
	if old.count() != 1 || len(successor.calls) != 1 {
		t.Errorf("the old one sent %d copies, the new one was called %d times", old.count(), len(successor.calls))
	}
}

func TestOutageOfTheDatabaseIsWaitedOut(t *testing.T) {
	b := newBox(t)
	proxy := servertest.Proxy(t, b.dsn)
	s, _ := openBox(t, connect(t, proxy.DSN()))
	rec := newRecorder(nil)
	queue := watch(s)
	relay, err := outbox.NewRelay(queue, map[string]outbox.Publisher{"kafka": rec}, fast()...)
	if err != nil {
		t.Fatal(err)
	}
	start(t, relay)
	b.write(event("kafka", "a", "0"))
	rec.wait(t, 1)
	for i := 1; i <= 5; i++ {
		queue.further(t, 1) // it is connected
		before := queue.failures()
		proxy.CutAll()
		b.write(event("kafka", "a", fmt.Sprint(i)))
		queue.until(t, "it notices the outage", func() bool { return queue.fails > before })
	}
	eventually(t, "all have come", func() bool { return len(firstCopies(rec.types("a"))) == 6 })
	if got := firstCopies(rec.types("a")); !slices.Equal(got, numbered(6)) {
		t.Errorf("came %v", got)
	}
	eventually(t, "the outbox is empty", func() bool { return b.left() == 0 })
}

func TestMissingTablesEndTheRelayAtOnce(t *testing.T) {
	pool := connect(t, servertest.Postgres(t))
	s, _ := openBox(t, pool)
	relay, err := outbox.NewRelay(s, map[string]outbox.Publisher{"kafka": newRecorder(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if err := relay.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Migrate") {
		t.Errorf("the error is %v", err)
	}
}

func TestRoleThatOwnsNothingIsEnough(t *testing.T) {
	b := newBox(t)
	role := fmt.Sprintf("semel_runtime_%d", time.Now().UnixNano())
	for _, sql := range []string{
		"create role " + role + " login",
		"grant usage on schema semel to " + role,
		"grant select, insert, update, delete on all tables in schema semel to " + role,
	} {
		if _, err := b.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, sql := range []string{"drop owned by " + role, "drop role " + role} {
			if _, err := b.pool.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	config, err := pgxpool.ParseConfig(b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "set role "+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := pgstore.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	out, err := outbox.NewWriter(s)
	if err != nil {
		t.Fatal(err)
	}
	refuse := true
	rec := newRecorder(func(context.Context, store.Event) error {
		if refuse {
			refuse = false
			return outbox.Permanent(errors.New("no"))
		}
		return nil
	})
	relay, err := outbox.NewRelay(s, map[string]outbox.Publisher{"kafka": rec}, fast()...)
	if err != nil {
		t.Fatal(err)
	}
	stop := start(t, relay)
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return out.WriteTx(t.Context(), tx, event("kafka", "a", "0"), event("kafka", "a", "1"))
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one is parked", func() bool { return b.waiting("parked") == 1 })
	if _, err := s.RetryWaiting(t.Context(), store.WaitingFilter{Destination: "kafka"}, 1); err != nil {
		t.Fatal(err)
	}
	rec.wait(t, 2)
	if _, err := s.OutboxStats(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
}

func TestWakeSparesThePoll(t *testing.T) {
	b := newBox(t)
	rec := newRecorder(nil)
	queue := watch(b.store)
	relay, err := outbox.NewRelay(queue, map[string]outbox.Publisher{"kafka": rec}, outbox.WithPoll(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	start(t, relay)
	queue.until(t, "it has looked for the first time", func() bool { return queue.looks > 0 })
	out, err := outbox.NewWriter(b.store, outbox.WithWake(relay.Wake))
	if err != nil {
		t.Fatal(err)
	}
	run := store.NewRun(store.Origin{Consumer: "c", Key: store.DigestKey([]byte("m"))})
	ctx := store.WithRun(t.Context(), run)
	if err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return out.WriteTx(ctx, tx, event("kafka", "a", "0")) }); err != nil {
		t.Fatal(err)
	}
	run.Committed()
	rec.wait(t, 1)
}

func TestWorksBesideALongSnapshot(t *testing.T) {
	b := newBox(t)
	reader, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.Background()) }()
	writer, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.Background()) }()
	for tx, sql := range map[pgx.Tx]string{reader: "select count(*) from semel.outbox", writer: "create table open_writer (id int)"} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	rec := newRecorder(nil)
	b.run(map[string]outbox.Publisher{"kafka": rec})
	for i := range 50 {
		b.write(event("kafka", "a", fmt.Sprint(2*i)), event("kafka", "a", fmt.Sprint(2*i+1)))
	}
	rec.wait(t, 100)
	if got := rec.types("a"); !slices.Equal(got, numbered(100)) {
		t.Errorf("came %v", got)
	}
}
