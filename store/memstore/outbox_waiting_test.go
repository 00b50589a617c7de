package memstore_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

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

	all, err := r.Backlog(t.Context(), []int16{slot})
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Backlog{
		{Slot: slot, Destination: "kafka", Topic: "orders", Key: []byte("k"), Behind: 1, Held: 2, Parked: 1},
		{Slot: slot, Destination: "kafka", Topic: "refunds", Key: []byte("k"), Held: 1},
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
