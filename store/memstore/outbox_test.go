package memstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// event has its name as its type, for the tests to tell it by.
func event(key, name string) store.Event {
	e := store.Event{ID: store.ChildID(store.ID{}, name), Destination: "kafka", Topic: "orders", Type: name}
	if key != "" {
		e.Key = []byte(key)
	}
	return e
}

func slotOf(key string) int16 {
	e := event(key, "")
	return e.Slot()
}

func write(t *testing.T, s *memstore.Store, events ...store.Event) {
	t.Helper()
	err := s.InTx(t.Context(), func(ctx context.Context, tx *memstore.Tx) error { return s.AppendTx(ctx, tx, events) })
	if err != nil {
		t.Fatal(err)
	}
}

// relay is a member that holds what it can get.
type relay struct {
	*testing.T
	store.Member
}

func join(t *testing.T, s *memstore.Store, name string) *relay {
	t.Helper()
	r := &relay{t, s.Join(name, time.Minute)}
	r.hold()
	return r
}

func (r *relay) hold() store.Holding {
	r.Helper()
	h, err := r.Member.Hold(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return h
}

func (r *relay) next(done store.Settlement, want store.Want) store.Batch {
	r.Helper()
	if want.Slots == nil {
		for i := range store.Slots {
			want.Slots = append(want.Slots, int16(i))
		}
	}
	b, err := r.Member.Next(r.Context(), done, want)
	if err != nil {
		r.Fatal(err)
	}
	return b
}

func (r *relay) flow(most int) []*store.Row {
	r.Helper()
	return r.next(store.Settlement{}, store.Want{Flow: most}).Flow
}

// wait moves flowing rows to where they wait.
func (r *relay) wait(state store.RowState, after time.Duration, rows ...*store.Row) {
	r.Helper()
	var done store.Settlement
	for _, row := range rows {
		done.Wait = append(done.Wait, store.Wait{Row: row, State: state, Attempts: 3, Starts: 1, After: after, Reason: "refused"})
	}
	r.next(done, store.Want{})
}

func names(rows []*store.Row) string {
	var all []string
	for _, r := range rows {
		all = append(all, r.Type)
	}
	return fmt.Sprint(all)
}

func wantRows(t *testing.T, what string, rows []*store.Row, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if got := names(rows); got != fmt.Sprint(want) {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestEventsAreThereAfterTheCommitAndOnlyThen(t *testing.T) {
	s := memstore.New()
	r := join(t, s, "r")
	u := begin(t, s)
	if err := s.AppendTx(t.Context(), u.Tx(), []store.Event{event("k", "a")}); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "before the commit", r.flow(10))
	if err := u.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRows(t, "after a rollback", r.flow(10))
	write(t, s, event("k", "b"), event("k", "c"))
	wantRows(t, "after a commit", r.flow(10), "b", "c")
}

func TestEventsAreCopiesAndLeaveAsTheyCame(t *testing.T) {
	s := memstore.New()
	for _, bytes := range [][]byte{nil, {}, []byte("\x00\xff")} {
		e := event("k", "a")
		e.Payload, e.Headers = slices.Clone(bytes), []store.Header{{Key: "h", Value: slices.Clone(bytes)}, {Key: "h", Value: []byte("2")}}
		want := fmt.Sprintf("%#v", e)
		write(t, s, e)
		clear(e.Key)
		clear(e.Payload)
		clear(e.Headers)
		r := join(t, s, "r")
		rows := r.flow(10)
		if len(rows) != 1 || fmt.Sprintf("%#v", rows[0].Event) != want {
			t.Errorf("written %s, read %#v", want, rows)
		}
		r.next(store.Settlement{Sent: rows}, store.Want{})
	}
}

func TestARowCarriesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		began := time.Now()
		u := begin(t, s)
		time.Sleep(time.Second)
		e := event("k", "a")
		if err := s.AppendTx(t.Context(), u.Tx(), []store.Event{e}); err != nil {
			t.Fatal(err)
		}
		write(t, s, event("k", "earlier"))
		if _, err := u.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows := join(t, s, "r").flow(10)
		wantRows(t, "in the order of the commits", rows, "earlier", "a")
		a := rows[1]
		if a.Slot != e.Slot() || a.State != store.Flowing || a.Seq <= rows[0].Seq || !a.WrittenAt.Equal(began) || a.Attempts+a.Starts != 0 {
			t.Errorf("the row is %+v", a)
		}
	})
}

func TestRowsInHandAreNotGivenOutAgainUntilTheyComeBack(t *testing.T) {
	s := memstore.New()
	r := join(t, s, "r")
	write(t, s, event("k", "a"), event("k", "b"), event("k", "c"), event("k", "d"))
	first := r.flow(2)
	wantRows(t, "first", first, "a", "b")
	wantRows(t, "second", r.flow(1), "c")
	b := r.next(store.Settlement{Sent: first[:1], Back: first[1:]}, store.Want{Flow: 10})
	wantRows(t, "after b came back", b.Flow, "b", "d")
	b = r.next(store.Settlement{Sent: b.Flow}, store.Want{Flow: 10})
	wantRows(t, "after b and d were sent", b.Flow)
	if b.More {
		t.Error("More where only c is left, which is in hand")
	}
}

func TestSlotsHaveFairTurns(t *testing.T) {
	s := memstore.New()
	r := join(t, s, "r")
	a, b := "k1", "k2"
	for n := 2; slotOf(a) == slotOf(b); n++ {
		b = fmt.Sprint("k", n)
	}
	for i := range 5 {
		write(t, s, event(a, fmt.Sprint("a", i)))
	}
	write(t, s, event(b, "b0"), event(b, "b1"))
	batch := r.next(store.Settlement{}, store.Want{Flow: 4, Slots: []int16{slotOf(a), slotOf(b)}})
	wantRows(t, "four", batch.Flow, "a0", "b0", "a1", "b1")
	if !batch.More {
		t.Error("no More where three are left")
	}
	batch = r.next(store.Settlement{}, store.Want{Flow: 3})
	wantRows(t, "the others", batch.Flow, "a2", "a3", "a4")
	if batch.More {
		t.Error("More where none is left")
	}

	// One at a time is fair as well.
	write(t, s, event(a, "a5"), event(a, "a6"), event(a, "a7"), event(b, "b2"))
	var got []*store.Row
	for range 2 {
		got = append(got, r.next(store.Settlement{}, store.Want{Flow: 1, Slots: []int16{slotOf(a), slotOf(b)}}).Flow...)
	}
	if !slices.ContainsFunc(got, func(r *store.Row) bool { return r.Type == "b2" }) {
		t.Errorf("one at a time: %s, want b2 among them", names(got))
	}
}

func TestASettlementMayBeGivenAgain(t *testing.T) {
	s := memstore.New()
	r := join(t, s, "r")
	write(t, s, event("k", "sent"), event("k", "parked"))
	rows := r.flow(10)
	done := store.Settlement{Sent: rows[:1], Wait: []store.Wait{{Row: rows[1], State: store.Parked, Reason: "refused"}}}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Next(cancelled, done, store.Want{})
	wantFault(t, s, err, store.FaultCanceled)
	if st, _ := s.OutboxStats(t.Context()); st.Flowing != 2 {
		t.Errorf("after an error the store has %+v", st)
	}
	for range 2 {
		r.next(done, store.Want{})
		if st, _ := s.OutboxStats(t.Context()); st.Flowing != 0 || st.Parked != 1 {
			t.Errorf("the store has %+v", st)
		}
	}
}
