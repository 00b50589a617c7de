package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// Behind a pooler in transaction mode each transaction of a connection may run in another
// session. Everything must work nevertheless, which it cannot if anything is kept in one.
func TestBehindATransactionPooler(t *testing.T) {
	dsn := servertest.Postgres(t)
	if err := pgstore.Migrate(t.Context(), newPool(t, dsn)); err != nil {
		t.Fatal(err)
	}
	pooled := newPool(t, startPooler(t, dsn, 3), func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		c.MaxConns = 4
	})
	exec(t, pooled, "create table effects (name text not null)")
	if a, b := queryOne[int32](t, pooled, "select pg_backend_pid()"), queryOne[int32](t, pooled, "select pg_backend_pid()"); a == b {
		t.Fatalf("two statements ran in one session, %d: this is no pooler", a)
	}
	s := newStore(t, pooled)
	guard, err := dedup.NewTx(s, "pooled", dedup.FromHeader("id"), dedup.Forever, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if _, err := tx.Exec(ctx, "insert into effects values ($1)", string(m.Body)); err != nil {
			return err
		}
		return s.AppendTx(ctx, tx, []store.Event{{ID: store.NewID(), Destination: "d", Topic: "t", Type: "y", Payload: m.Body}})
	})
	if err != nil {
		t.Fatal(err)
	}
	var ms []dedup.Message
	for i := range 40 {
		id := []byte(fmt.Sprint("id ", i/2)) // each twice
		ms = append(ms, dedup.Message{Headers: []dedup.Header{{Key: "id", Value: id}}, Body: id})
	}
	var wg sync.WaitGroup
	for range 4 { // and by four workers at once
		wg.Go(func() {
			for _, r := range guard.ProcessEach(t.Context(), ms[:20]) {
				if !r.Outcome.Settled() {
					t.Errorf("each: %s: %v", r.Outcome, r.Err)
				}
			}
			for _, r := range guard.ProcessBatch(t.Context(), ms[10:]) {
				if !r.Outcome.Settled() {
					t.Errorf("batch: %s: %v", r.Outcome, r.Err)
				}
			}
		})
	}
	wg.Wait()
	if n := queryOne[int64](t, pooled, "select count(*) from effects"); n != 20 {
		t.Errorf("%d effects of 20 messages", n)
	}
	if n := queryOne[int64](t, pooled, "select count(*) from semel.outbox"); n != 20 {
		t.Errorf("%d events of 20 messages", n)
	}
	for range 6 {
		if limit := queryOne[string](t, pooled, "show lock_timeout"); limit != "0" {
			t.Errorf("a session was left with lock_timeout = %s", limit)
		}
	}
}

// startPooler is the least pooler in transaction mode: sessions take turns, and a client has
// one from its first message until the server says that no transaction is open.
func startPooler(t *testing.T, dsn string, sessions int) (pooledDSN string) {
	t.Helper()
	idle := make(chan *pgconn.HijackedConn, sessions)
	for range sessions {
		conn, err := pgconn.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		session, err := conn.Hijack()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Conn.Close() })
		idle <- session
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); clients.Wait() })
	clients.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			clients.Go(func() {
				defer func() { _ = client.Close() }()
				if err := pooledClient(client, idle); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Logf("pooler: %v", err)
				}
			})
		}
	})
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = listener.Addr().String()
	return u.String()
}

func pooledClient(client net.Conn, idle chan *pgconn.HijackedConn) error {
	backend := pgproto3.NewBackend(client, client)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return err
	}
	first := <-idle
	backend.Send(&pgproto3.AuthenticationOk{})
	for name, value := range first.ParameterStatuses {
		backend.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	idle <- first
	backend.Send(&pgproto3.BackendKeyData{SecretKey: make([]byte, 4)})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := backend.Flush(); err != nil {
		return err
	}
	var session *pgconn.HijackedConn
	for {
		message, err := backend.Receive()
		if _, over := message.(*pgproto3.Terminate); over || err != nil {
			return nil
		}
		if session == nil {
			session = <-idle
		}
		session.Frontend.Send(message)
		switch message.(type) {
		case *pgproto3.Query, *pgproto3.Sync:
		default:
			continue
		}
		if err := session.Frontend.Flush(); err != nil {
			return err
		}
		for ready := false; !ready; {
			answer, err := session.Frontend.Receive()
			if err != nil {
				return err
			}
			backend.Send(answer)
			if r, ok := answer.(*pgproto3.ReadyForQuery); ok {
				ready = true
				if r.TxStatus == 'I' {
					idle <- session
					session = nil
				}
			}
		}
		if err := backend.Flush(); err != nil {
			return err
		}
	}
}
