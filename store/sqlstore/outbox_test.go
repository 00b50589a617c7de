package sqlstore_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// awkwardEvents have everything that an array, a text or a driver may get wrong.
func awkwardEvents() []store.Event {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	awkward := `q"u'o\te, {br{ace}, NULL, ü, $1, ?`
	return []store.Event{
		{Destination: "kafka", Topic: "t", Type: "", Key: nil, Payload: nil},
		{Destination: awkward, Topic: awkward, Type: awkward, Key: []byte(awkward), Payload: []byte(awkward)},
		{Destination: "NULL", Topic: "null", Type: "NULL", Key: []byte{}, Payload: []byte{}},
		{Destination: "d", Topic: "t", Key: all, Payload: all, Headers: []store.Header{{Key: "a", Value: all}, {Key: awkward, Value: nil}, {Key: "a", Value: []byte{}}}},
		{Destination: " ", Topic: " \n\t", Key: []byte(`\x41`), Payload: []byte(`\\x41`)},
	}
}

// What is appended here and through pgstore is the same to the byte, one by one and together, and in
// that order.
func TestAppendTxWritesWhatPgstoreWrites(t *testing.T) {
	t.Parallel()
	overDrivers(t, func(t *testing.T, driver string) {
		p := fresh(t, driver)
		s := p.open()
		other, err := pgstore.New(p.admin)
		if err != nil {
			t.Fatal(err)
		}
		events := awkwardEvents()
		for i := range events {
			events[i].ID = store.NewID()
		}
		batches := [][]store.Event{events}
		for i := range events {
			batches = append(batches, events[i:i+1])
		}
		if err := inTx(t.Context(), p.db(1), func(tx *sql.Tx) error {
			for _, b := range batches {
				if err := s.AppendTx(t.Context(), tx, b); err != nil {
					return err
				}
			}
			return s.AppendTx(t.Context(), tx, nil)
		}); err != nil {
			t.Fatal(err)
		}
		ours := p.outbox()
		p.exec("truncate semel.outbox")
		if err := pgx.BeginFunc(t.Context(), p.admin, func(tx pgx.Tx) error {
			for _, b := range batches {
				if err := other.AppendTx(t.Context(), tx, b); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		theirs := p.outbox()
		if len(ours) != 2*len(events) || len(theirs) != len(ours) {
			t.Fatalf("%d rows, pgstore has %d, want %d", len(ours), len(theirs), 2*len(events))
		}
		for i := range ours {
			if ours[i] != theirs[i] {
				t.Errorf("row %d is\n%s\nand pgstore's\n%s", i, ours[i], theirs[i])
			}
		}
	})
}

func (p *place) outbox() []string {
	p.t.Helper()
	rows, err := p.admin.Query(p.t.Context(), `select slot::text || '|' || id || '|' || destination || '|' || aggregatetype || '|' ||
		coalesce(aggregateid::text, 'null') || '|' || type || '|' || coalesce(payload::text, 'null') || '|' || coalesce(headers::text, 'null')
		from semel.outbox order by seq`)
	if err != nil {
		p.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// A rollback takes the events with it.
func TestEventsGoWithTheirTransaction(t *testing.T) {
	t.Parallel()
	p := fresh(t, "pgx")
	s := p.open()
	u := begin(t, s, plainMark(scopeOf(t, s), "m"))
	events := awkwardEvents()
	for i := range events {
		events[i].ID = store.NewID()
	}
	if err := s.AppendTx(t.Context(), u.Tx(), events); err != nil {
		t.Fatal(err)
	}
	if err := u.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows := p.outbox(); len(rows) != 0 {
		t.Errorf("there are %d events", len(rows))
	}
	// The error of the statement is that of the server.
	u = begin(t, s, plainMark(scopeOf(t, s), "m"))
	p.exec("drop table semel.outbox")
	err := s.AppendTx(t.Context(), u.Tx(), events)
	wantCode(t, err, "42P01")
	if f := u.Fault(fmt.Errorf("book: %w", err)); f != store.FaultSetup {
		t.Errorf("%v is %s, want setup", err, f)
	}
}
