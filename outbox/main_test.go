package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func TestMain(m *testing.M) {
	childMain()
	servertest.Main(m)
}

// box is an outbox in a database of its own.
type box struct {
	t     *testing.T
	dsn   string
	pool  *pgxpool.Pool
	store *pgstore.Store
	out   *outbox.Writer[pgx.Tx]
}

func newBox(t *testing.T) *box {
	t.Helper()
	b := &box{t: t, dsn: servertest.Postgres(t)}
	b.pool = connect(t, b.dsn)
	if err := pgstore.Migrate(t.Context(), b.pool, pgstore.WithPartitions(365*24*time.Hour, 0)); err != nil {
		t.Fatal(err)
	}
	b.store, b.out = openBox(t, b.pool)
	return b
}

func connect(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func openBox(t *testing.T, pool *pgxpool.Pool) (*pgstore.Store, *outbox.Writer[pgx.Tx]) {
	t.Helper()
	s, err := pgstore.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	w, err := outbox.NewWriter(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, w
}

// write commits the events in one transaction.
func (b *box) write(events ...store.Event) {
	b.t.Helper()
	err := pgx.BeginFunc(context.Background(), b.pool, func(tx pgx.Tx) error {
		return b.out.WriteTx(context.Background(), tx, events...)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) count(sql string, args ...any) (n int) {
	b.t.Helper()
	if err := b.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// left is how many events are in the outbox.
func (b *box) left() int {
	b.t.Helper()
	return b.count("select (select count(*) from semel.outbox) + (select count(*) from semel.outbox_waiting)")
}

func (b *box) waiting(state string) int {
	b.t.Helper()
	return b.count("select count(*) from semel.outbox_waiting where state = $1", state)
}

// fast are options that make a test short.
func fast(more ...outbox.RelayOption) []outbox.RelayOption {
	return append([]outbox.RelayOption{
		outbox.WithPoll(20 * time.Millisecond),
		outbox.WithLease(2 * time.Second),
		outbox.WithProbe(20*time.Millisecond, 200*time.Millisecond),
		outbox.WithRetry(outbox.Retry{MaxAttempts: 3, MinDelay: 20 * time.Millisecond, MaxDelay: 100 * time.Millisecond}),
		outbox.WithDrain(5 * time.Second),
	}, more...)
}

// run runs a relay and returns how to stop it.
func (b *box) run(publishers map[string]outbox.Publisher, opts ...outbox.RelayOption) (stop func()) {
	b.t.Helper()
	relay, err := outbox.NewRelay(b.store, publishers, fast(opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	return start(b.t, relay)
}

func start(t *testing.T, relay *outbox.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// patience is for what is only slow on a busy machine: thousands of events that are refused, retried and
// sent one behind the other take seconds on an idle one.
const patience = time.Minute

// eventually waits for a state of the database; there is no signal for it.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// recorder is a publisher that follows a script and remembers what it confirmed.
type recorder struct {
	mu     sync.Mutex
	script func(ctx context.Context, e store.Event) error
	calls  [][]store.Event
	got    []store.Event
	came   chan struct{}
	busy   map[string]int
	rivals int
}

func newRecorder(script func(context.Context, store.Event) error) *recorder {
	return &recorder{script: script, came: make(chan struct{}, 1), busy: map[string]int{}}
}

func (r *recorder) Publish(ctx context.Context, events []store.Event) []error {
	r.mu.Lock()
	r.calls = append(r.calls, events)
	for _, key := range keysOf(events) {
		if r.busy[key]++; r.busy[key] > 1 {
			r.rivals++
		}
	}
	script := r.script
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, key := range keysOf(events) {
			r.busy[key]--
		}
	}()
	errs := make([]error, len(events))
	stopped := map[string]bool{}
	for i, e := range events {
		if e.Key != nil && stopped[string(e.Key)] || ctx.Err() != nil {
			errs[i] = outbox.ErrNotSent
			continue
		}
		if script != nil {
			errs[i] = script(ctx, e)
		}
		if errs[i] != nil {
			stopped[string(e.Key)] = true
			continue
		}
		r.mu.Lock()
		r.got = append(r.got, e)
		r.mu.Unlock()
		select {
		case r.came <- struct{}{}:
		default:
		}
	}
	return errs
}

func keysOf(events []store.Event) (keys []string) {
	seen := map[string]bool{}
	for _, e := range events {
		if e.Key != nil && !seen[string(e.Key)] {
			seen[string(e.Key)] = true
			keys = append(keys, string(e.Key))
		}
	}
	return keys
}

func (r *recorder) set(script func(context.Context, store.Event) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = script
}

// events are those that were confirmed, in order.
func (r *recorder) events() []store.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]store.Event(nil), r.got...)
}

func (r *recorder) count() int { return len(r.events()) }

// types are the confirmed events' types of one key, in order.
func (r *recorder) types(key string) (all []string) {
	for _, e := range r.events() {
		if string(e.Key) == key {
			all = append(all, e.Type)
		}
	}
	return all
}

// wait waits until n events were confirmed.
func (r *recorder) wait(t *testing.T, n int) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for r.count() < n {
		select {
		case <-r.came:
		case <-timeout:
			t.Fatalf("%d events came within 20s, want %d", r.count(), n)
		}
	}
}

// noRivals checks that no key was in two calls at once.
func (r *recorder) noRivals(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rivals > 0 {
		t.Errorf("keys were in two calls at once %d times", r.rivals)
	}
}

func event(destination, key, kind string) store.Event {
	e := store.Event{Destination: destination, Topic: "t", Type: kind, Payload: []byte(kind)}
	if key != "" {
		e.Key = []byte(key)
	}
	return e
}

func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"))
	})
}

func numbered(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}
