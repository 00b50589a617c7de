package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// told is a store that writes down what it is told of how far the consumer has come.
type told struct {
	store.Marks[*memstore.Tx]
	said []string
	fail error
}

func (s *told) Reached(_ context.Context, _ store.Scope, partitions []store.Reach) error {
	var all []string
	for _, r := range partitions {
		at := "now"
		if !r.Newest.IsZero() {
			at = fmt.Sprint(int(r.Newest.Sub(epoch) / time.Hour))
		}
		all = append(all, fmt.Sprintf("%s/%d@%s", r.Log, r.Partition, at))
	}
	slices.Sort(all)
	s.said = append(s.said, strings.Join(all, " "))
	return s.fail
}

// The removal of marks follows the newest message that is settled, partition by partition. The store
// is told of it now and then, not with every message.
func TestReach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &told{Marks: memstore.New()}
		fail := map[string]error{"bad": errors.New("no")}
		g, err := dedup.NewTx(s, "consumer", dedup.FromHeader("id"), 30*24*time.Hour, except(fail))
		if err != nil {
			t.Fatal(err)
		}
		m := func(id string, partition int, offset int64) dedup.Message {
			m := message(id)
			m.Position = at(offset)
			m.Position.Partition = partition
			return m
		}
		want := func(all ...string) {
			t.Helper()
			if !slices.Equal(s.said, all) {
				t.Errorf("the store was told %q, want %q", s.said, all)
			}
		}
		wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{m("a", 0, 5), m("b", 0, 3), m("c", 1, 1), m("d", 0, 4)}), "applied applied applied applied")
		want("orders/0@5 orders/1@1")
		// A duplicate is settled, a failure is not. A webhook has no time that is the same on every
		// delivery; its mark has the store's.
		wantOutcomes(t, g.ProcessBatch(t.Context(), []dedup.Message{m("a", 0, 7), m("f", 0, 6), m("bad", 0, 9)}), "duplicate applied failed(handler)")
		h := message("h")
		h.Position = dedup.Position{Broker: "webhook", Log: "shop"}
		wantResult(t, g.Process(t.Context(), h), dedup.Applied, 0)
		want("orders/0@5 orders/1@1")
		time.Sleep(10 * time.Second)
		s.fail = errors.New("not now")
		wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{m("i", 2, 1)}), "applied")
		want("orders/0@5 orders/1@1", "orders/0@7 orders/2@1 shop/0@now")
		// What could not be said is said again.
		s.fail = nil
		time.Sleep(10 * time.Second)
		wantOutcomes(t, g.ProcessEach(t.Context(), []dedup.Message{m("j", 2, 2)}), "applied")
		want("orders/0@5 orders/1@1", "orders/0@7 orders/2@1 shop/0@now", "orders/0@7 orders/2@2 shop/0@now")

		s.said = nil
		forever, err := dedup.NewTx(s, "another", dedup.FromHeader("id"), dedup.Forever, add)
		if err != nil {
			t.Fatal(err)
		}
		wantOutcomes(t, forever.ProcessEach(t.Context(), []dedup.Message{m("a", 0, 5)}), "applied")
		want()
	})
}
