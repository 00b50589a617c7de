package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// bent is a memory store with a fault in it, and a record of what a guard did with it.
type bent struct {
	*memstore.Store

	mu     sync.Mutex
	record []string
	open   int

	// begin, where it is set, may refuse a transaction; commit may end one otherwise than by
	// the commit that it is given.
	begin  func(n int) error
	commit func(n int, real func() (store.End, error)) (store.End, error)
	next   func(n int) error // refuses the second half of Next
	begun  func()            // is called once a transaction is open

	begins, commits, nexts int
}

func newBent() *bent { return &bent{Store: memstore.New()} }

// faulty is an error whose fault is known.
type faulty struct{ fault store.Fault }

func (f *faulty) Error() string { return "fault: " + f.fault.String() }

func (b *bent) Fault(err error) store.Fault {
	var f *faulty
	if errors.As(err, &f) {
		return f.fault
	}
	return b.Store.Fault(err)
}

func (b *bent) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.record = append(b.record, fmt.Sprintf(format, args...))
}

func (b *bent) count(n *int, open int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	*n++
	b.open += open
	return *n
}

func (b *bent) Begin(ctx context.Context, marks []store.Mark) (store.Unit[*memstore.Tx], []store.Status, error) {
	n := b.count(&b.begins, 0)
	if b.begin != nil {
		if err := b.begin(n); err != nil {
			b.note("begin: %v", err)
			return nil, nil, err
		}
	}
	u, statuses, err := b.Store.Begin(ctx, marks)
	if err != nil {
		b.note("begin: %v", err)
		return nil, nil, err
	}
	b.note("begin %v", statuses)
	b.count(new(int), 1)
	if b.begun != nil {
		b.begun()
	}
	return &bentUnit{Unit: u, b: b, open: true}, statuses, nil
}

type bentUnit struct {
	store.Unit[*memstore.Tx]
	b    *bent
	open bool
}

func (u *bentUnit) closed() {
	if u.open {
		u.open = false
		u.b.count(new(int), -1)
	}
}

func (u *bentUnit) end(ctx context.Context) (store.End, error) {
	real := func() (store.End, error) { return u.Unit.Commit(ctx) }
	end, err := store.End(0), error(nil)
	if n := u.b.count(&u.b.commits, 0); u.b.commit != nil {
		end, err = u.b.commit(n, real)
		_ = u.Unit.Rollback(ctx)
	} else {
		end, err = real()
	}
	return end, err
}

func (u *bentUnit) Commit(ctx context.Context) (store.End, error) {
	end, err := u.end(ctx)
	u.closed()
	u.b.note("commit: %s", end)
	return end, err
}

func (u *bentUnit) Next(ctx context.Context, marks []store.Mark) (store.End, []store.Status, error) {
	end, err := u.end(ctx)
	if err != nil {
		u.closed()
		u.b.note("next: %s", end)
		return end, nil, err
	}
	if n := u.b.count(&u.b.nexts, 0); u.b.next != nil {
		if err := u.b.next(n); err != nil {
			u.closed()
			u.b.note("next: %s, %v", end, err)
			return end, nil, err
		}
	}
	unit, statuses, err := u.b.Store.Begin(ctx, marks)
	if err != nil {
		u.closed()
		u.b.note("next: %s, %v", end, err)
		return end, nil, err
	}
	u.Unit = unit
	u.b.note("next: %s %v", end, statuses)
	return end, statuses, nil
}

func (u *bentUnit) Fault(err error) store.Fault {
	var f *faulty
	if errors.As(err, &f) {
		return f.fault
	}
	return u.Unit.Fault(err)
}

func (u *bentUnit) Rollback(ctx context.Context) error {
	if u.open {
		u.b.note("rollback")
	}
	u.closed()
	return u.Unit.Rollback(ctx)
}

// idle checks that no transaction is left open.
func (b *bent) idle(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open != 0 {
		t.Errorf("%d transactions are left open after %q", b.open, b.record)
	}
}

func (b *bent) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.record, b.begins, b.commits, b.nexts = nil, 0, 0, 0
}

type txHandler = dedup.TxHandlerFunc[*memstore.Tx]

func guardOn(t *testing.T, s store.Marks[*memstore.Tx], h txHandler, opts ...dedup.TxOption) *dedup.TxGuard[*memstore.Tx] {
	t.Helper()
	g, err := dedup.NewTx(s, "consumer", dedup.FromHeader("id"), h, opts...)
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
