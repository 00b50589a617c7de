package pgstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// VACUUM FULL puts other events into the places where a relay has read: none of those may go that
// nobody has confirmed.
func TestRewrittenTableKeepsWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	r := newRelayed(t)
	ids := r.write(10)
	rows := r.read(store.Want{Flow: 100}, 10)
	r.settle(store.Settlement{Sent: rows[:4]})
	exec(t, r.pool, "vacuum full semel.outbox")
	r.settle(store.Settlement{Sent: []*store.Row{rows[4], rows[9]}})
	r.wantLeft("outbox", ids[5:9])
}

// An asynchronous replica is promoted that has not received the last events. It gives their numbers, and
// their places, to new ones, of which the relay must not say what it knows of the old ones.
func TestPromotedReplicaKeepsItsOwnEvents(t *testing.T) {
	t.Parallel()
	for what, settlement := range map[string]func(rows []*store.Row) store.Settlement{"sent": sent, "refused": refuse, "to be retried": retry} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, elsewhere := range []bool{false, true} {
				r := newRelayed(t)
				r.write(10)
				rows, before := r.read(store.Want{Flow: 100}, 10), r.places()
				r.failOver()
				ids := r.write(10)
				if after := r.places(); after != before {
					t.Fatalf("the events lie at %s, want them where others were: %s", after, before)
				}
				if elsewhere { // only the numbers are the same
					exec(t, r.pool, "update semel.outbox set type = type")
				}
				r.settle(settlement(rows))
				r.wantLeft("outbox", ids)
				r.wantLeft("outbox_waiting", nil)
				if got := r.idsOf(r.read(store.Want{Flow: 100}, 10)); !slices.Equal(got, ids) {
					t.Errorf("given out are %v, want %v", got, ids)
				}
			}
		})
	}
}

// The same with events that wait.
func TestPromotedReplicaKeepsItsOwnWaitingEvents(t *testing.T) {
	t.Parallel()
	for what, settlement := range map[string]func(rows []*store.Row) store.Settlement{"sent": sent, "refused": refuse} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRelayed(t)
			r.write(10)
			r.settle(retry(r.read(store.Want{Flow: 100}, 10)))
			rows := r.read(store.Want{Due: 100}, 10)
			r.failOver()
			ids := r.write(10)
			const columns = "slot, seq, id, destination, aggregatetype, aggregateid, type, payload, headers, created_at"
			exec(t, r.pool, `with gone as (delete from semel.outbox returning *)
				insert into semel.outbox_waiting (`+columns+`, state, attempts, starts, due, reason)
				select `+columns+`, 'retry', 1, 0, now(), '' from gone`)
			r.settle(settlement(rows))
			r.wantLeft("outbox_waiting", ids)
			if n := queryOne[int64](t, r.pool, "select count(*) from semel.outbox_waiting where state = 'retry' and attempts = 1"); n != 10 {
				t.Errorf("%d events wait as they did, want 10", n)
			}
			if got := r.idsOf(r.read(store.Want{Due: 100}, 10)); !slices.Equal(got, ids) {
				t.Errorf("given out are %v, want %v", got, ids)
			}
		})
	}
}

func sent(rows []*store.Row) store.Settlement { return store.Settlement{Sent: rows} }

func refuse(rows []*store.Row) store.Settlement {
	return store.Settlement{Wait: waits(rows, store.Parked)}
}

func retry(rows []*store.Row) store.Settlement {
	return store.Settlement{Wait: waits(rows, store.Retrying)}
}

func waits(rows []*store.Row, state store.RowState) (all []store.Wait) {
	for _, row := range rows {
		all = append(all, store.Wait{Row: row, State: state, Attempts: 7, Reason: "no"})
	}
	return all
}

// relayed is an outbox whose events are all in one slot, and a member that holds it.
type relayed struct {
	t    *testing.T
	pool *pgxpool.Pool
	s    *pgstore.Store
	m    store.Member
	slot int16
}

func newRelayed(t *testing.T) *relayed {
	t.Helper()
	pool := migrated(t)
	s := newStore(t, pool)
	r := &relayed{t, pool, s, s.Join("relay", time.Hour), 7}
	if _, err := r.m.Hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *relayed) write(n int) (ids []store.ID) {
	r.t.Helper()
	var events []store.Event
	for len(events) < n { // an event without a key has its slot by its id
		if e := (store.Event{ID: store.NewID(), Destination: "d", Topic: "t"}); e.Slot() == r.slot {
			events, ids = append(events, e), append(ids, e.ID)
		}
	}
	if err := pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error { return r.s.AppendTx(r.t.Context(), tx, events) }); err != nil {
		r.t.Fatal(err)
	}
	return ids
}

// read asks until n rows have been given out; the flow is looked through from its start only now and then.
func (r *relayed) read(want store.Want, n int) (rows []*store.Row) {
	r.t.Helper()
	want.Slots = []int16{r.slot}
	await(r.t, func() bool {
		b, err := r.m.Next(r.t.Context(), store.Settlement{}, want)
		if err != nil {
			r.t.Fatal(err)
		}
		rows = append(append(rows, b.Flow...), b.Due...)
		return len(rows) >= n
	})
	if len(rows) != n {
		r.t.Fatalf("%d rows were given out, want %d", len(rows), n)
	}
	slices.SortFunc(rows, func(a, b *store.Row) int { return int(a.Seq - b.Seq) })
	return rows
}

func (r *relayed) settle(done store.Settlement) {
	r.t.Helper()
	if b, err := r.m.Next(r.t.Context(), done, store.Want{}); err != nil || len(b.Lost) > 0 {
		r.t.Fatal(b.Lost, err)
	}
}

// failOver leaves what a replica has that got none of the events: not even that numbers were handed out.
func (r *relayed) failOver() {
	r.t.Helper()
	exec(r.t, r.pool, "truncate semel.outbox, semel.outbox_waiting restart identity")
}

func (r *relayed) places() string {
	r.t.Helper()
	return queryOne[string](r.t, r.pool, "select string_agg(format('%s:%s:%s', slot, seq, ctid), ' ' order by seq) from semel.outbox")
}

func (r *relayed) idsOf(rows []*store.Row) (ids []store.ID) {
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return ids
}

func (r *relayed) wantLeft(table string, want []store.ID) {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), "select id from semel."+table+" order by seq")
	if err != nil {
		r.t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.ID, error) {
		var id [16]byte
		err := row.Scan(&id)
		return id, err
	})
	if err != nil || !slices.Equal(got, want) {
		r.t.Fatalf("in %s are %v, %v, want %v", table, got, err, want)
	}
}
