package memstore_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

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
