package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

func TestMain(m *testing.M) {
	childMain()
	servertest.Main(m)
}

const soon = 30 * time.Second // long for a slow machine, never waited out by a test that passes

// world is a database with an inbox in a schema of its own, and a table of effects that has
// no unique constraint: what is done twice is there twice.
type world struct {
	t    *testing.T
	dsn  string
	pool *pgxpool.Pool
	box  *pgstore.Store
	work *pgstore.Store
}

func newWorld(t *testing.T, opts ...pgstore.Option) *world {
	t.Helper()
	w := &world{t: t, dsn: servertest.Postgres(t)}
	var err error
	if w.pool, err = pgxpool.New(context.Background(), w.dsn+poolSize); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			rows, _ := w.pool.Query(context.Background(), `select 'flowing ' || convert_from(aggregateid, 'UTF8') from semel_inbox.outbox
				union all select concat_ws(' ', state, attempts, starts, due, convert_from(aggregateid, 'UTF8'), left(reason, 200)) from semel_inbox.outbox_waiting`)
			all, err := pgx.CollectRows(rows, pgx.RowTo[string])
			t.Logf("%d effects; what is kept: %q (%v)", w.count("select count(*) from effects"), all, err)
		}
		w.pool.Close()
	})
	for _, schema := range []string{"semel", "semel_inbox"} {
		if err := pgstore.Migrate(t.Context(), w.pool, pgstore.WithSchema(schema), pgstore.WithPartitions(365*24*time.Hour, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.pool.Exec(t.Context(), "create table effects (n bigserial, key text not null, body text not null)"); err != nil {
		t.Fatal(err)
	}
	w.box, w.work = openStores(t, w.pool, opts...)
	return w
}

const poolSize = "&pool_max_conns=24"

func openStores(t testing.TB, pool *pgxpool.Pool, opts ...pgstore.Option) (box, work *pgstore.Store) {
	t.Helper()
	box, err := pgstore.New(pool, pgstore.WithSchema("semel_inbox"))
	if err != nil {
		t.Fatal(err)
	}
	if work, err = pgstore.New(pool, opts...); err != nil {
		t.Fatal(err)
	}
	return box, work
}

type handler = dedup.TxHandlerFunc[pgx.Tx]

// effect is work that may be done once.
func effect(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
	_, err := tx.Exec(ctx, "insert into effects (key, body) values ($1, $2)", string(m.Key), string(m.Body))
	return err
}

func guard(t testing.TB, s store.Marks[pgx.Tx], h handler, opts ...dedup.TxOption) *dedup.TxGuard[pgx.Tx] {
	t.Helper()
	g, err := dedup.NewTx(s, "orders", dedup.FromHeader("id"), dedup.Forever, h, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// fast are options that make a test short.
func fast(more ...outbox.RelayOption) inbox.Option {
	return inbox.WithRelay(append([]outbox.RelayOption{
		outbox.WithPoll(20 * time.Millisecond), outbox.WithLease(2 * time.Second),
		outbox.WithProbe(20*time.Millisecond, 200*time.Millisecond),
		outbox.WithRetry(outbox.Retry{MaxAttempts: 3, MinDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond}),
	}, more...)...)
}

// inbox makes an inbox whose work is done by the handler.
func (w *world) inbox(h handler, opts ...inbox.Option) *inbox.Inbox[pgx.Tx] {
	w.t.Helper()
	in, err := inbox.New(w.box, "orders", dedup.FromHeader("id"), dedup.Forever, guard(w.t, w.work, h), append([]inbox.Option{fast()}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return in
}

type runner interface{ Run(context.Context) error }

// start runs something and returns how to stop it.
func start(t *testing.T, r runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func order(key, body string) dedup.Message {
	return dedup.Message{
		Topic: "orders", Key: []byte(key), Body: []byte(body), Attempt: 1,
		Headers: []dedup.Header{{Key: "id", Value: []byte(key + "/" + body)}},
	}
}

// take hands messages to the intake as a consumer would.
func take(t testing.TB, in *inbox.Inbox[pgx.Tx], ms ...dedup.Message) {
	t.Helper()
	for _, r := range in.Intake().ProcessBatch(context.Background(), ms) {
		if !r.Outcome.Settled() {
			t.Fatalf("%v: %v", r.Outcome, r.Err)
		}
	}
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// left is how many messages are kept.
func (w *world) left() int {
	w.t.Helper()
	return w.count("select (select count(*) from semel_inbox.outbox) + (select count(*) from semel_inbox.outbox_waiting)")
}

func (w *world) waiting(state store.RowState) int {
	w.t.Helper()
	return w.count("select count(*) from semel_inbox.outbox_waiting where state = $1", state.String())
}

// effects are the bodies of a key, in the order in which they took effect.
func (w *world) effects(key string) []string {
	w.t.Helper()
	rows, _ := w.pool.Query(context.Background(), "select body from effects where key = $1 order by n", key)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) want(key string, bodies ...string) {
	w.t.Helper()
	if got := w.effects(key); !slices.Equal(got, bodies) {
		w.t.Errorf("the effects of %s are %v, want %v", key, got, bodies)
	}
}

func (w *world) empty() {
	w.t.Helper()
	eventually(w.t, "nothing is kept any more", func() bool { return w.left() == 0 })
}

// eventually waits for a state of a server; there is no signal for it.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(soon); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within %s: %s", soon, what)
		}
	}
}

func receive[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(soon):
		t.Fatalf("nothing came within %s", soon)
	}
	return v
}

func numbered(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}
