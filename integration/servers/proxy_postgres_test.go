package servers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

// rig is a database with a table, a session that goes through a proxy, and one that does not.
type rig struct {
	proxy  *servers.PostgresProxy
	client *pgx.Conn
	direct *pgx.Conn
}

func newRig(t *testing.T, mode pgx.QueryExecMode) rig {
	t.Helper()
	dsn := servertest.Postgres(t)
	proxy := servertest.Proxy(t, dsn)
	config, err := pgx.ParseConfig(proxy.DSN())
	if err != nil {
		t.Fatal(err)
	}
	if mode != 0 {
		config.DefaultQueryExecMode = mode
	}
	client, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(context.Background()) })
	r := rig{proxy: proxy, client: client, direct: connect(t, dsn)}
	execute(t, r.direct, "create table effects (id int)")
	return r
}

func awaitHit(t *testing.T, fault *servers.ArmedFault) {
	t.Helper()
	select {
	case <-fault.Fired():
	case <-time.After(20 * time.Second):
		t.Fatal("the fault did not hit")
	}
}

// ids are those of the committed rows. The backend of a session that was cut may still be at work; its locks tell.
func (r rig) ids(t *testing.T) []int {
	t.Helper()
	tx, err := r.direct.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "lock table effects in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), "select id from effects order by id")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// ways are the ways in which a client can say COMMIT. Each of them is to insert the row 1 before and, those that
// pipeline, the row 2 in a transaction of its own afterwards.
var ways = []struct {
	name   string
	mode   pgx.QueryExecMode // 0 is pgx's default, prepared statements in a cache.
	commit func(context.Context, *pgx.Conn) error
}{
	{"pgx.Tx", 0, func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "insert into effects values ($1)", 1); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}},
	{"simple query with spaces", 0, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.PgConn().Exec(ctx, "begin; insert into effects values (1); \n Commit Work ;").Close()
	}},
	{"named prepared statement", 0, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "begin"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "insert into effects values (1)"); err != nil {
			return err
		}
		if _, err := conn.PgConn().Prepare(ctx, "the_end", "COMMIT", nil); err != nil {
			return err
		}
		return conn.PgConn().ExecPrepared(ctx, "the_end", nil, nil, nil).Read().Err
	}},
	{"unnamed prepared statement", 0, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "begin"); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "insert into effects values (1)"); err != nil {
			return err
		}
		return conn.PgConn().ExecParams(ctx, "commit", nil, nil, nil, nil).Read().Err
	}},
	{"batch, statements cached", pgx.QueryExecModeCacheStatement, batch},
	{"batch, descriptions cached", pgx.QueryExecModeCacheDescribe, batch},
	{"batch, described", pgx.QueryExecModeDescribeExec, batch},
	{"batch, unnamed", pgx.QueryExecModeExec, batch},
	{"batch, simple", pgx.QueryExecModeSimpleProtocol, batch},
	{"pipeline with a sync in the middle", 0, func(ctx context.Context, conn *pgx.Conn) error {
		p := conn.PgConn().StartPipeline(ctx)
		for i, sql := range []string{"begin", "insert into effects values (1)", "commit", "begin", "insert into effects values (2)", "commit"} {
			p.SendQueryParams(sql, nil, nil, nil, nil)
			if i == 2 {
				if err := p.Sync(); err != nil {
					return errors.Join(err, p.Close())
				}
			}
		}
		if err := p.Sync(); err != nil {
			return errors.Join(err, p.Close())
		}
		return p.Close()
	}},
}

// batch ends one transaction and begins and ends the next in one round trip.
func batch(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "begin"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "insert into effects values ($1)", 1); err != nil {
		return err
	}
	b := &pgx.Batch{}
	for _, sql := range []string{"commit", "begin", "insert into effects values (2)", "commit"} {
		b.Queue(sql)
	}
	return conn.SendBatch(ctx, b).Close()
}

func TestProxyLosesACommit(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, way.mode)
			fault := r.proxy.Arm(servers.LoseCommit, 1)

			err := way.commit(t.Context(), r.client)

			if err == nil || !r.client.IsClosed() {
				t.Fatalf("the client got %v, closed %t; want a broken connection", err, r.client.IsClosed())
			}
			if fault.Hits() != 1 {
				t.Errorf("%d hits, want 1", fault.Hits())
			}
			if got := r.ids(t); len(got) != 0 {
				t.Errorf("rows %v are there, want none: the server did not see the commit", got)
			}
		})
	}
}

func TestProxyLosesTheAnswerToACommit(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, way.mode)
			fault := r.proxy.Arm(servers.LoseAnswer, 1)

			err := way.commit(t.Context(), r.client)

			if err == nil || !r.client.IsClosed() {
				t.Fatalf("the client got %v, closed %t; want a broken connection", err, r.client.IsClosed())
			}
			if fault.Hits() != 1 {
				t.Errorf("%d hits, want 1", fault.Hits())
			}
			awaitHit(t, fault)
			want := []int{1}
			if way.name == "batch, simple" {
				want = []int{1, 2} // One message for the server; it cannot be stopped in the middle.
			}
			if got := r.ids(t); !slices.Equal(got, want) {
				t.Errorf("rows %v are there, want %v", got, want)
			}
		})
	}
}

func TestProxyWithoutAFaultChangesNothing(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, way.mode)
			if err := way.commit(t.Context(), r.client); err != nil {
				t.Fatal(err)
			}
			commits := r.proxy.Commits()
			if got := r.ids(t); len(got) == 0 || len(got) != commits && way.name != "batch, simple" {
				t.Errorf("rows %v are there after %d commits", got, commits)
			}
			if got := query[int](t, r.client, "select 7"); got != 7 {
				t.Errorf("the session then answers %d, want 7", got)
			}
		})
	}
}

func TestProxyStrikesTheNthCommitOfAPipeline(t *testing.T) {
	t.Parallel()
	for fault, want := range map[servers.CommitFault][]int{servers.LoseCommit: {1}, servers.LoseAnswer: {1, 2}} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0)
			armed := r.proxy.ArmWhen(fault, func(c servers.Commit) bool { return c.Number == 2 })
			if err := batch(t.Context(), r.client); err == nil {
				t.Fatal("the client got no error")
			}
			awaitHit(t, armed)
			if got := r.ids(t); !slices.Equal(got, want) {
				t.Errorf("rows %v are there, want %v", got, want)
			}
		})
	}
}

func TestProxyCountsDownOverSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	fault := r.proxy.Arm(servers.LoseAnswer, 2)
	commit := ways[0].commit
	for i := range 3 {
		err := commit(t.Context(), connect(t, r.proxy.DSN()))
		if broken := err != nil; broken != (i < 2) {
			t.Errorf("commit %d: %v", i+1, err)
		}
	}
	if fault.Hits() != 2 {
		t.Errorf("%d hits, want 2", fault.Hits())
	}
}

func TestProxyArmsOneSessionOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0) // Its client is session 1.
	second := connect(t, r.proxy.DSN())
	fault := r.proxy.ArmWhen(servers.LoseCommit, func(c servers.Commit) bool { return c.Session == 2 })
	commit := ways[0].commit
	if err := commit(t.Context(), r.client); err != nil {
		t.Errorf("session 1: %v", err)
	}
	if err := commit(t.Context(), second); err == nil {
		t.Error("session 2 got no error")
	}
	fault.Disarm()
	third := connect(t, r.proxy.DSN())
	if err := commit(t.Context(), third); err != nil {
		t.Errorf("session 3: %v", err)
	}
}

func TestProxyPassesACommitThatTheServerRefuses(t *testing.T) {
	t.Parallel()
	pipeline := func(sqls ...string) func(context.Context, *pgx.Conn) error {
		return func(ctx context.Context, conn *pgx.Conn) error {
			p := conn.PgConn().StartPipeline(ctx)
			for _, sql := range sqls {
				p.SendQueryParams(sql, nil, nil, nil, nil)
			}
			return errors.Join(p.Sync(), p.Close())
		}
	}
	deferred := "create table strict (id int unique deferrable initially deferred)"
	for name, refused := range map[string]func(context.Context, *pgx.Conn) error{
		"deferred constraint, simple": func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, deferred+"; begin; insert into strict values (1), (1); commit")
			return err
		},
		"deferred constraint, pipeline": pipeline(deferred, "begin", "insert into strict values (1), (1)", "commit"),
		"error earlier in the pipeline": pipeline("begin", "insert into effects values (1 / 0)", "commit"),
		"syntax error in the pipeline":  pipeline("begin", "no such thing", "commit"),
		"failed transaction": func(ctx context.Context, conn *pgx.Conn) error {
			tx, err := conn.Begin(ctx)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "select 1 / 0"); err == nil {
				return errors.New("division by zero went well")
			}
			if err := tx.Commit(ctx); !errors.Is(err, pgx.ErrTxCommitRollback) {
				return fmt.Errorf("commit: %w, want %w", err, pgx.ErrTxCommitRollback)
			}
			return &pgconn.PgError{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0)
			fault := r.proxy.Arm(servers.LoseAnswer, 1)

			var refusal *pgconn.PgError
			if err := refused(t.Context(), r.client); !errors.As(err, &refusal) {
				t.Fatalf("the client got %v, want the server's error", err)
			}
			if fault.Hits() != 0 {
				t.Errorf("%d hits, want none", fault.Hits())
			}
			if _, err := r.client.Exec(t.Context(), "rollback"); err != nil {
				t.Fatal(err)
			}
			if err := ways[0].commit(t.Context(), r.client); err == nil {
				t.Error("the next commit got through: the fault is no longer armed")
			}
			if got := r.ids(t); !slices.Equal(got, []int{1}) {
				t.Errorf("rows %v are there, want [1]", got)
			}
		})
	}
}

func TestProxyCarriesCopyAndCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	rows := make([][]any, 20_000)
	for i := range rows {
		rows[i] = []any{i}
	}
	if n, err := r.client.CopyFrom(t.Context(), pgx.Identifier{"effects"}, []string{"id"}, pgx.CopyFromRows(rows)); err != nil || n != 20_000 {
		t.Fatalf("copied %d rows, error %v", n, err)
	}
	if got := query[string](t, r.client, "select string_agg(repeat('x', 50), '') from effects"); len(got) != 1_000_000 {
		t.Fatalf("a value of %d bytes, want 1000000", len(got))
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := r.client.Exec(context.Background(), "select pg_sleep(60)")
		waiting <- err
	}()
	active := "select count(*) from pg_stat_activity where query like 'select pg_sleep%' and datname = current_database()"
	within(t, func(context.Context) error {
		if query[int](t, r.direct, active) == 0 {
			return errors.New("the query has not reached the server")
		}
		return nil
	})
	if err := r.client.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	var canceled *pgconn.PgError
	if err := <-waiting; !errors.As(err, &canceled) || canceled.Code != "57014" {
		t.Fatalf("the query got %v, want that it was cancelled", err)
	}
}

func TestProxyRefusesTLSAsAServerWithoutItDoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	config, err := pgx.ParseConfig(r.proxy.DSN() + "&sslmode=prefer")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
