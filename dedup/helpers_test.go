package dedup_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

type txHandler = dedup.TxHandlerFunc[*memstore.Tx]

func guardOn(t *testing.T, s store.Marks[*memstore.Tx], h txHandler, opts ...dedup.TxOption) *dedup.TxGuard[*memstore.Tx] {
	t.Helper()
	g, err := dedup.NewTx(s, "consumer", dedup.FromHeader("id"), dedup.Forever, h, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func message(id string) dedup.Message {
	return dedup.Message{Headers: []dedup.Header{{Key: "id", Value: []byte(id)}}}
}

func messages(ids ...string) []dedup.Message {
	ms := make([]dedup.Message, len(ids))
	for i, id := range ids {
		ms[i] = message(id)
	}
	return ms
}

func idOf(m dedup.Message) string {
	id, _ := m.Header("id")
	return string(id)
}

// add is the handler whose effect is counted under the message's id.
func add(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
	_, err := tx.Add(ctx, idOf(m), 1)
	return err
}

// except is add, but for the messages named, which fail after their effect.
func except(fail map[string]error) txHandler {
	return func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if err := add(ctx, tx, m); err != nil {
			return err
		}
		return fail[idOf(m)]
	}
}

func wantResult(t *testing.T, r dedup.Result, want dedup.Outcome, fault store.Fault) {
	t.Helper()
	if r.Outcome != want || r.Fault != fault || (r.Err == nil) != want.Settled() {
		t.Errorf("the result is %s (%s) with error %v, want %s (%s)", r.Outcome, r.Fault, r.Err, want, fault)
	}
}

// wantOutcomes compares results with words: "applied duplicate failed(handler)".
func wantOutcomes(t *testing.T, results []dedup.Result, want string) {
	t.Helper()
	got := ""
	for i, r := range results {
		if i > 0 {
			got += " "
		}
		got += r.Outcome.String()
		if r.Fault != 0 {
			got += "(" + r.Fault.String() + ")"
		}
		if (r.Err == nil) != r.Outcome.Settled() {
			t.Errorf("result %d is %s with error %v", i, r.Outcome, r.Err)
		}
	}
	if got != want {
		t.Errorf("the results are %s\nwant %s", got, want)
	}
}

func wantEffects(t *testing.T, s interface{ Get(name string) int64 }, want map[string]int64) {
	t.Helper()
	for name, n := range want {
		if got := s.Get(name); got != n {
			t.Errorf("%s has taken effect %d times, want %d", name, got, n)
		}
	}
}

func wantRecord(t *testing.T, b *bent, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if fmt.Sprintf("%q", b.record) != fmt.Sprintf("%q", want) {
		t.Errorf("what happened:\n%q\nwant:\n%q", b.record, want)
	}
}
