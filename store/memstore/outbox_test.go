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

func TestAReleasedSlotIsOutOfReach(t *testing.T) {
	s := memstore.New()
	r := join(t, s, "r")
	write(t, s, event("k", "a"), event("k", "b"))
	rows := r.flow(1)
	if err := r.Release(t.Context(), slotOf("k")); err != nil {
		t.Fatal(err)
	}
	b := r.next(store.Settlement{Sent: rows}, store.Want{Flow: 10})
	wantRows(t, "after the release", b.Flow)
	if len(b.Lost) != 0 {
		t.Errorf("Lost is %v where the slot was given up", b.Lost)
	}
	h := r.hold()
	if len(h.Lost) != 0 || len(h.Gained) != 1 || h.Gained[0] != (store.Gain{Slot: slotOf("k")}) {
		t.Errorf("after the release: %+v", h)
	}
	wantRows(t, "after it was taken again", r.flow(10), "a", "b")
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

func TestRelaysDivideTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		a := &relay{t, s.Join("a", time.Minute)}
		h := a.hold()
		if len(h.Gained) != store.Slots || h.Surplus != 0 || !h.Until.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("the only relay: %+v", h)
		}
		for _, g := range h.Gained {
			if g.Suspect {
				t.Errorf("slot %d is suspect where nobody ever held it", g.Slot)
			}
		}
		b := &relay{t, s.Join("b", time.Minute)}
		if h := b.hold(); len(h.Gained) != 0 {
			t.Errorf("the second relay took %d slots that are held", len(h.Gained))
		}
		h = a.hold()
		if h.Surplus != 32 || len(h.Gained)+len(h.Lost)+len(h.Changed) != 0 {
			t.Errorf("the first relay once the second lives: %+v", h)
		}
		var slots []int16
		for i := range 40 {
			slots = append(slots, int16(i))
		}
		if err := a.Release(t.Context(), slots...); err != nil {
			t.Fatal(err)
		}
		h = b.hold()
		if len(h.Gained) != 32 || h.Surplus != 0 {
			t.Errorf("the second relay once 40 are free: %+v", h)
		}
		for _, g := range h.Gained {
			if g.Suspect {
				t.Errorf("slot %d is suspect though it was released", g.Slot)
			}
		}
		if st, _ := s.OutboxStats(t.Context()); st.Relays != 2 || st.FreeSlots != 8 {
			t.Errorf("stats: %+v", st)
		}
		if h := a.hold(); len(h.Gained) != 8 {
			t.Errorf("the first relay takes %d of the 8 that are left", len(h.Gained))
		}

		c := join(t, s, "c")
		if h := a.hold(); h.Surplus != 32-22 {
			t.Errorf("the first relay once three live: %+v", h)
		}
		if err := c.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h := a.hold(); h.Surplus != 0 {
			t.Errorf("the first relay once the third has left: %+v", h)
		}

		// The second one dies.
		b.hold()
		time.Sleep(time.Minute - time.Nanosecond)
		a.hold()
		time.Sleep(time.Nanosecond)
		if st, _ := s.OutboxStats(t.Context()); st.Relays != 1 || st.FreeSlots != 32 {
			t.Errorf("stats: %+v", st)
		}
		h = a.hold()
		if len(h.Gained) != 32 {
			t.Errorf("the first relay takes %d slots of the dead one", len(h.Gained))
		}
		for _, g := range h.Gained {
			if !g.Suspect {
				t.Errorf("slot %d is not suspect though its holder died", g.Slot)
			}
		}
		if h := b.hold(); len(h.Lost) != 32 || len(h.Gained) != 0 {
			t.Errorf("the dead one, awake: %+v", h)
		}
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h := b.hold(); len(h.Gained) != 0 {
			t.Errorf("Leave released %d slots", len(h.Gained))
		}
		time.Sleep(time.Minute)
		if h := b.hold(); len(h.Gained) != store.Slots {
			t.Errorf("the last relay has %d slots", len(h.Gained))
		}
	})
}

func TestARelayThatWasReplacedChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		old := join(t, s, "old")
		write(t, s, event("k", "sent"), event("k", "waits"), event("k", "back"))
		rows := old.flow(10)
		slot := rows[0].Slot
		time.Sleep(time.Minute)
		young := join(t, s, "young")

		b := old.next(store.Settlement{
			Sent: rows[:1], Back: rows[2:],
			Wait: []store.Wait{{Row: rows[1], State: store.Parked}},
		}, store.Want{Flow: 10, Due: 10})
		wantRows(t, "the old relay", b.Flow)
		if !slices.Contains(b.Lost, slot) {
			t.Errorf("Lost is %v, want %d in it", b.Lost, slot)
		}
		if slices.Sort(b.Lost); len(slices.Compact(b.Lost)) != len(b.Lost) {
			t.Errorf("Lost has a slot twice: %v", b.Lost)
		}
		if err := old.Release(t.Context(), slot); err != nil {
			t.Error(err)
		}
		wantRows(t, "the young relay", young.flow(10), "sent", "waits", "back")
		if h := young.hold(); len(h.Lost) != 0 {
			t.Errorf("the young relay lost %v", h.Lost)
		}
	})
}

// A slot that went to somebody else and came back is another tenure.
func TestASlotThatWasLostAndTakenAgainBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		a := join(t, s, "a")
		write(t, s, event("k", "e"))
		a.flow(10)
		time.Sleep(time.Minute)
		join(t, s, "b")
		time.Sleep(time.Minute)
		h := a.hold()
		if len(h.Lost) != store.Slots || len(h.Gained) != store.Slots {
			t.Errorf("lost %d and gained %d", len(h.Lost), len(h.Gained))
		}
		wantRows(t, "the new tenure", a.flow(10), "e")
	})
}

func TestALeaseThatRanOutUnnoticedIsStillHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		a := join(t, s, "a")
		write(t, s, event("k", "e"))
		rows := a.flow(10)
		time.Sleep(2 * time.Minute)
		if b := a.next(store.Settlement{Sent: rows}, store.Want{}); len(b.Lost) != 0 {
			t.Errorf("Lost is %v", b.Lost)
		}
		if st, _ := s.OutboxStats(t.Context()); st.Flowing != 0 {
			t.Errorf("stats: %+v", st)
		}
	})
}

func TestRetriesComeWhenTheyAreDueTheLongestDueFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		r := join(t, s, "r")
		write(t, s, event("", "a"), event("", "b"), event("", "c"), event("", "d"))
		for _, row := range r.flow(10) {
			after := map[string]time.Duration{"a": 3 * time.Second, "b": time.Second, "c": 2 * time.Second, "d": time.Hour}[row.Type]
			r.wait(store.Retrying, after, row)
		}
		time.Sleep(time.Second - time.Nanosecond)
		r.hold()
		wantRows(t, "too early", r.next(store.Settlement{}, store.Want{Due: 10}).Due)
		time.Sleep(time.Nanosecond)
		due := r.next(store.Settlement{}, store.Want{Due: 10}).Due
		wantRows(t, "after 1s", due, "b")
		if b := due[0]; b.State != store.Retrying || b.Attempts != 3 || b.Starts != 1 {
			t.Errorf("the row is %+v", b)
		}
		time.Sleep(2 * time.Second)
		wantRows(t, "after 3s, at most one", r.next(store.Settlement{}, store.Want{Due: 1}).Due, "c")
		wantRows(t, "after 3s", r.next(store.Settlement{}, store.Want{Due: 10}).Due, "a")
		b := r.next(store.Settlement{Back: due}, store.Want{Due: 10})
		wantRows(t, "after b came back", b.Due, "b")
		r.next(store.Settlement{Sent: b.Due}, store.Want{})
		if st, _ := s.OutboxStats(t.Context()); st.Retrying != 3 || st.OldestWaiting != 3*time.Second {
			t.Errorf("stats: %+v", st)
		}
	})
}

// The start of a row is noted before it is sent, so that a crash in the middle is counted.
func TestKeepLeavesTheRowInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		r := join(t, s, "r")
		write(t, s, event("k", "e"))
		rows := r.flow(1)
		r.next(store.Settlement{Wait: []store.Wait{{Row: rows[0], State: store.Retrying, Attempts: 1, Starts: 2, Keep: true}}}, store.Want{})
		if e := rows[0]; e.State != store.Retrying || e.Attempts != 1 || e.Starts != 2 {
			t.Errorf("the relay's row is %+v", e)
		}
		wantRows(t, "while in hand", r.next(store.Settlement{}, store.Want{Due: 10}).Due)

		time.Sleep(time.Minute)
		after := join(t, s, "after the crash")
		due := after.next(store.Settlement{}, store.Want{Due: 10}).Due
		wantRows(t, "after the crash", due, "e")
		if due[0].Starts != 2 {
			t.Errorf("Starts is %d, want 2", due[0].Starts)
		}
		after.next(store.Settlement{Sent: due}, store.Want{})
		if st, _ := s.OutboxStats(t.Context()); st.Retrying+st.Flowing != 0 {
			t.Errorf("stats: %+v", st)
		}
	})
}

func TestWhatWaitsIsFoundByKeyAndByTopic(t *testing.T) {
	s := memstore.New()
	r := join(t, s, "r")
	other := event("k", "e")
	other.Topic = "refunds"
	write(t, s, event("k", "a"), event("k", "b"), event("k", "c"), event("k", "d"), other, event("another key", "f"))
	rows := make(map[string]*store.Row)
	for _, row := range r.flow(10) {
		rows[row.Type] = row
	}
	r.wait(store.Parked, 0, rows["a"])
	r.wait(store.Held, 0, rows["d"], rows["b"], rows["e"], rows["f"])
	r.wait(store.Behind, 0, rows["c"])
	slot := rows["a"].Slot

	all, err := r.Backlog(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Backlog{
		{Destination: "kafka", Topic: "orders", Key: []byte("k"), Behind: 1, Held: 2, Parked: 1},
		{Destination: "kafka", Topic: "refunds", Key: []byte("k"), Held: 1},
	}
	if rows["f"].Slot != slot && fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("the backlog is %v, want %v", all, want)
	}

	key := store.WantKey{Slot: slot, Destination: "kafka", Key: []byte("k"), Most: 2}
	b := r.next(store.Settlement{}, store.Want{
		Keys: []store.WantKey{key},
		Held: []store.WantHeld{{Destination: "kafka", Topic: "orders", Slots: []int16{slot, rows["f"].Slot}, Each: 10}},
	})
	wantRows(t, "by key", b.Keys, "a", "b")
	wantRows(t, "by topic", b.Held, "d", "f")
	if b.Keys[0].State != store.Parked || b.Keys[1].State != store.Held {
		t.Errorf("the states are %q and %q", b.Keys[0].State, b.Keys[1].State)
	}
	key.Topic, key.Most = "refunds", 10
	b = r.next(store.Settlement{Back: b.Keys}, store.Want{Keys: []store.WantKey{key}})
	wantRows(t, "by key and topic", b.Keys, "e")
	key.Topic = ""
	b = r.next(store.Settlement{Back: b.Keys}, store.Want{Keys: []store.WantKey{key}})
	wantRows(t, "by key, without what is in hand", b.Keys, "a", "b", "c", "e")
}

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
		if n, err := s.DiscardParked(t.Context(), store.WaitingFilter{}, 10); n != 1 || err != nil {
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
	if n, err := s.DiscardParked(t.Context(), store.WaitingFilter{}, 2); n != 2 || err != nil {
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
	_, err = r.Backlog(ctx, 0)
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
