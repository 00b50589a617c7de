package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

const backlog = 200_000

// BenchmarkRelay measures how fast a backlog drains into a publisher that does nothing: the
// relay, its start and its end included, beside the loop that people write by hand, which claims
// rows of the same columns with SKIP LOCKED and deletes them.
func BenchmarkRelay(b *testing.B) {
	for _, size := range []int{100, 500} {
		b.Run(fmt.Sprintf("N=%d", size), func(b *testing.B) {
			pool := database(b, 4)
			mustExec(b, pool, `create table naive_outbox (id bigint generated always as identity primary key, uid uuid not null,
				destination text not null, topic text not null, key bytea, type text not null, payload bytea, headers bytea, created_at timestamptz not null default now())`)
			s, err := pgstore.New(pool)
			if err != nil {
				b.Fatal(err)
			}
			c := newContest(b)
			c.add("skiplocked", func() (int, time.Duration) {
				mustExec(b, pool, fmt.Sprintf(`truncate naive_outbox; insert into naive_outbox (uid, destination, topic, key, type, payload)
					select gen_random_uuid(), 'nowhere', 'receipts', convert_to((n %% 1000)::text, 'UTF8'), 'receipt', convert_to(repeat('x', 256), 'UTF8') from generate_series(1, %d) n; analyze naive_outbox`, backlog))
				start := time.Now()
				return drainByHand(b, pool, size), time.Since(start)
			})
			c.add("relay", func() (int, time.Duration) {
				fill(b, pool, s)
				return drainByRelay(b, s, size)
			})
			c.run()
			c.ratio("relay", "relay", "skiplocked")
		})
	}
}

func drainByHand(b *testing.B, pool *pgxpool.Pool, size int) int {
	ctx := context.Background()
	sent := 0
	for {
		n := 0
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "select id, uid, destination, topic, key, type, payload, headers, created_at from naive_outbox order by id limit $1 for update skip locked", size)
			if err != nil {
				return err
			}
			var ids []int64
			var id int64
			var event store.Event
			var headers []byte
			var written time.Time
			_, err = pgx.ForEachRow(rows, []any{&id, (*[16]byte)(&event.ID), &event.Destination, &event.Topic, &event.Key, &event.Type, &event.Payload, &headers, &written}, func() error {
				ids = append(ids, id)
				return nil
			})
			if err != nil {
				return err
			}
			n = len(ids)
			_, err = tx.Exec(ctx, "delete from naive_outbox where id = any($1)", ids)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		if n == 0 {
			return sent
		}
		sent += n
	}
}

func fill(b *testing.B, pool *pgxpool.Pool, s *pgstore.Store) {
	ctx := context.Background()
	mustExec(b, pool, "truncate semel.outbox, semel.outbox_waiting")
	payload := make([]byte, 256)
	for first := 0; first < backlog; first += 1000 {
		events := make([]store.Event, 1000)
		for i := range events {
			events[i] = store.Event{ID: store.NewID(), Destination: "nowhere", Topic: "receipts", Type: "receipt",
				Key: fmt.Appendf(nil, "%d", i), Payload: payload}
		}
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return s.AppendTx(ctx, tx, events) }); err != nil {
			b.Fatal(err)
		}
	}
	mustExec(b, pool, "analyze semel.outbox")
}

// nowhere confirms everything and tells when a number of events has come.
type nowhere struct {
	left atomic.Int64
	done context.CancelFunc
}

func (n *nowhere) Publish(_ context.Context, events []store.Event) []error {
	if n.left.Add(-int64(len(events))) == 0 {
		n.done()
	}
	return nil
}

func drainByRelay(b *testing.B, s *pgstore.Store, size int) (int, time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sink := &nowhere{done: cancel}
	sink.left.Store(backlog)
	r, err := outbox.NewRelay(s, map[string]outbox.Publisher{"nowhere": sink}, outbox.WithBatch(size))
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if err := r.Run(ctx); err != nil {
		b.Fatal(err)
	}
	return backlog, time.Since(start)
}
