package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store/pgstore"
)

// world is everything around the children: the servers, what was published, and the
// receiver at the far end.
type world struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *pgstore.Store
	proxy *servers.PostgresProxy
	js    jetstream.JetStream
	base  orders

	published *int
}

// in is the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	inner := *w
	inner.t = t
	return &inner
}

func newWorld(t *testing.T, role string) *world {
	t.Helper()
	ctx := t.Context()
	dsn := servertest.Postgres(t)
	w := &world{t: t, proxy: servertest.Proxy(t, dsn), base: orders{Role: role, NATS: servertest.NATS(t), Group: "workers"}, published: new(int)}
	w.pool = must(pgxpool.New(ctx, dsn))(t)
	t.Cleanup(w.pool.Close)
	for _, schema := range []string{"semel", "receiver"} {
		check(t, pgstore.Migrate(ctx, w.pool, pgstore.WithSchema(schema)))
	}
	w.exec("create table effects (id text not null)")
	w.exec("create table receipts (id text not null)")
	w.store = must(pgstore.New(w.pool))(t)

	conn := must(nats.Connect(w.base.NATS))(t)
	t.Cleanup(conn.Close)
	w.js = must(jetstream.New(conn))(t)
	for _, stream := range []jetstream.StreamConfig{
		{Name: "PAYMENTS", Subjects: []string{"payments.>"}},
		// Copies must reach the receiver: the stream's own window would hide them.
		{Name: "RECEIPTS", Subjects: []string{"receipts.>"}, Duplicates: time.Millisecond * 100},
	} {
		_ = must(w.js.CreateStream(ctx, stream))(t)
	}
	return w
}

// receive runs the receiving side, which is not killed but meets every copy.
func (w *world) receive() {
	w.t.Helper()
	s := must(pgstore.New(w.pool, pgstore.WithSchema("receiver")))(w.t)
	guard := must(dedup.NewTx(s, "receipts", dedup.FromHeader("Nats-Msg-Id"), dedup.Forever, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		_, err := tx.Exec(ctx, "insert into receipts (id) values ($1)", string(m.Body))
		return err
	}))(w.t)
	c := must(natssub.New(w.js, "RECEIPTS", consumerConfig("receiver"), guard))(w.t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			w.t.Errorf("receiver: %v", err)
		}
	})
}

// newID is the id of one more event.
func (w *world) newID() string {
	*w.published++
	return fmt.Sprintf("event-%06d", *w.published)
}

// child starts a process; through says whether it reaches the database by way of the proxy.
func (w *world) child(role string, p point, after int, through bool) *child {
	w.t.Helper()
	o := w.base
	o.Role, o.Point, o.After, o.DSN = role, p, after, w.pool.Config().ConnString()
	if through {
		o.DSN = w.proxy.DSN()
	}
	order := must(json.Marshal(o))(w.t)
	c := &child{t: w.t, cmd: exec.Command(must(os.Executable())(w.t)), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(order))
	c.cmd.Stderr = &c.output
	check(w.t, c.cmd.Start())
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	w.t.Cleanup(c.kill)
	return c
}

type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	output bytes.Buffer
	done   chan struct{}
	err    error
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// killed waits for the child's own death and fails where it died of something else.
func (c *child) killed() {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(30 * time.Second):
		c.kill()
		c.t.Fatalf("the child did not reach its point; it said: %s", c.output.String())
	}
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		c.t.Fatalf("the child ended with %v instead of being killed; it said: %s", c.err, c.output.String())
	}
}

// eventually waits until a query gives the number.
func (w *world) eventually(what, sql string, want int, children ...*child) {
	w.t.Helper()
	deadline := time.After(time.Minute)
	for {
		got := w.count(sql)
		if got == want {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			for _, c := range children {
				c.kill()
				w.t.Logf("a child said: %s", c.output.String())
			}
			w.t.Fatalf("%s: %d after a minute, want %d", what, got, want)
		}
	}
}

func (w *world) count(sql string) int {
	w.t.Helper()
	rows := must(w.pool.Query(context.Background(), sql))(w.t)
	return must(pgx.CollectExactlyOneRow(rows, pgx.RowTo[int]))(w.t)
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_ = must(w.pool.Exec(w.t.Context(), sql, args...))(w.t)
}

// verdict: nothing lost, nothing doubled.
func (w *world) verdict(table string) {
	w.t.Helper()
	if n := w.count("select count(distinct id) from " + table); n != *w.published {
		w.t.Errorf("%s: %d of %d events had an effect", table, n, *w.published)
	}
	if n := w.count("select count(*) from (select id from " + table + " group by id having count(*) > 1) d"); n != 0 {
		w.t.Errorf("%s: %d events had more than one effect", table, n)
	}
}

// must lets a call with an error stand in one line: must(f())(t).
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
