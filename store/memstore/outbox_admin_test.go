package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func TestOperatorsFindRetryAndDiscardWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		r := join(t, s, "r")
		write(t, s, event("k1", "a"), event("k2", "b"), event("k3", "c"))
		rows := make(map[string]*store.Row)
		for _, row := range r.flow(10) {
			rows[row.Type] = row
		}
		time.Sleep(time.Second)
		r.wait(store.Parked, 0, rows["a"], rows["b"])
		time.Sleep(time.Second)
		r.wait(store.Retrying, time.Hour, rows["c"])
		r.hold()

		list := func(f store.WaitingFilter, after int64, limit int) string {
			t.Helper()
			all, err := s.ListWaiting(t.Context(), f, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, w := range all {
				got = append(got, w.Type)
				if w.Reason != "refused" || w.Attempts != 3 || w.Changed.IsZero() || w.Since.IsZero() {
					t.Errorf("the event is %+v", w)
				}
			}
			return fmt.Sprint(got)
		}
		for _, c := range []struct {
			f     store.WaitingFilter
			after int64
			limit int
			want  string
		}{
			{store.WaitingFilter{}, 0, 10, "[a b c]"},
			{store.WaitingFilter{}, 0, 2, "[a b]"},
			{store.WaitingFilter{}, rows["a"].Seq, 10, "[b c]"},
			{store.WaitingFilter{State: store.Parked}, 0, 10, "[a b]"},
			{store.WaitingFilter{Key: []byte("k2")}, 0, 10, "[b]"},
			{store.WaitingFilter{Key: []byte{}}, 0, 10, "[]"},
			{store.WaitingFilter{IDs: []store.ID{rows["c"].ID, {}}}, 0, 10, "[c]"},
			{store.WaitingFilter{Topic: "orders", Destination: "kafka"}, 0, 10, "[a b c]"},
			{store.WaitingFilter{Topic: "refunds"}, 0, 10, "[]"},
			{store.WaitingFilter{Destination: "nats"}, 0, 10, "[]"},
			{store.WaitingFilter{ChangedSince: time.Now()}, 0, 10, "[c]"},
		} {
			if got := list(c.f, c.after, c.limit); got != c.want {
				t.Errorf("%+v after %d, at most %d: %s, want %s", c.f, c.after, c.limit, got, c.want)
			}
		}

		if n, err := s.RetryWaiting(t.Context(), store.WaitingFilter{Key: []byte("k1")}, 10); n != 1 || err != nil {
			t.Errorf("RetryWaiting: %d, %v", n, err)
		}
		if n, err := s.RetryWaiting(t.Context(), store.WaitingFilter{State: store.Retrying, Key: []byte("k3")}, 10); n != 1 || err != nil {
			t.Errorf("RetryWaiting: %d, %v", n, err)
		}
		if n, err := s.DiscardParked(t.Context(), store.WaitingFilter{Destination: "kafka"}, 10); n != 1 || err != nil {
			t.Errorf("DiscardParked: %d, %v", n, err)
		}
		changed := []int16{rows["a"].Slot, rows["b"].Slot, rows["c"].Slot}
		slices.Sort(changed)
		if h := r.hold(); !slices.Equal(h.Changed, slices.Compact(changed)) {
			t.Errorf("Changed is %v, want %v", h.Changed, changed)
		}
		if h := r.hold(); len(h.Changed) != 0 {
			t.Errorf("Changed is %v for the second time", h.Changed)
		}
		due := r.next(store.Settlement{}, store.Want{Due: 10}).Due
		wantRows(t, "due", due, "a", "c")
		if due[0].Attempts+due[0].Starts != 0 {
			t.Errorf("the row is %+v", due[0])
		}
	})
}

func TestDiscardAndRetryTakeTheOldestFirst(t *testing.T) {
	s := memstore.New()
	r := join(t, s, "r")
	const most = 30 // spread over the slots
	for i := range most {
		write(t, s, event("", fmt.Sprint(i)))
	}
	r.wait(store.Parked, 0, r.flow(most)...)
	if n, err := s.DiscardParked(t.Context(), store.WaitingFilter{Destination: "kafka"}, 2); n != 2 || err != nil {
		t.Errorf("DiscardParked: %d, %v", n, err)
	}
	if n, err := s.RetryWaiting(t.Context(), store.WaitingFilter{}, 1); n != 1 || err != nil {
		t.Errorf("RetryWaiting: %d, %v", n, err)
	}
	wantRows(t, "due", r.next(store.Settlement{}, store.Want{Due: 10}).Due, "2")
	if st, _ := s.OutboxStats(t.Context()); st.Parked != most-3 || st.Retrying != 1 {
		t.Errorf("stats: %+v", st)
	}
}

func TestWhatOperatorsGetIsTheirs(t *testing.T) {
	s := memstore.New()
	r := join(t, s, "r")
	write(t, s, event("key", "e"))
	r.wait(store.Parked, 0, r.flow(1)...)
	for range 2 {
		all, err := s.ListWaiting(t.Context(), store.WaitingFilter{}, 0, 1)
		if err != nil || string(all[0].Key) != "key" {
			t.Errorf("ListWaiting: %+v, %v", all, err)
		}
		clear(all[0].Key)
	}
}

func TestTheOutboxRefusesAnEndedContext(t *testing.T) {
	s := memstore.New()
	r := join(t, s, "r")
	write(t, s, event("k", "e"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u := begin(t, s)
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	add(s.AppendTx(ctx, u.Tx(), []store.Event{event("k", "late")}))
	_, err := r.Hold(ctx)
	add(err)
	_, err = r.Next(ctx, store.Settlement{}, store.Want{Flow: 1, Slots: []int16{slotOf("k")}})
	add(err)
	_, err = r.Backlog(ctx, []int16{0})
	add(err)
	add(r.Release(ctx, 0))
	add(r.Leave(ctx))
	_, err = s.ListWaiting(ctx, store.WaitingFilter{}, 0, 1)
	add(err)
	_, err = s.RetryWaiting(ctx, store.WaitingFilter{}, 1)
	add(err)
	_, err = s.DiscardParked(ctx, store.WaitingFilter{}, 1)
	add(err)
	_, err = s.OutboxStats(ctx)
	add(err)
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: %v", i, err)
		}
		wantFault(t, s, err, store.FaultCanceled)
	}
	if end, _ := u.Commit(t.Context()); end != store.RolledBack {
		t.Errorf("a transaction whose append failed is %q", end)
	}
	if h := r.hold(); len(h.Gained)+len(h.Lost) != 0 {
		t.Errorf("a refused Release changed %+v", h)
	}
	wantRows(t, "the flow", r.flow(10), "e")
}
