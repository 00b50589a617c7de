package bench

import (
	"context"
	"slices"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// What does nothing, so that what is around it can be measured.

const most = 1000 // messages at a time

var (
	allNew     = slices.Repeat([]store.Status{store.New}, most)
	allApplied = slices.Repeat([]dedup.Result{{Outcome: dedup.Applied}}, most)
)

// nothing is the transaction of a store that has none.
type nothing struct{}

// nullMarks finds every mark new, commits at once and remembers nothing.
type nullMarks struct{}

func (nullMarks) Scope(context.Context, string, time.Duration) (store.Scope, error) { return 1, nil }
func (nullMarks) Fault(error) store.Fault                                           { return store.FaultOutage }

func (nullMarks) Begin(_ context.Context, marks []store.Mark) (store.Unit[nothing], []store.Status, error) {
	return nullUnit{}, allNew[:len(marks)], nil
}

type nullUnit struct{}

func (nullUnit) Tx() nothing                               { return nothing{} }
func (nullUnit) Commit(context.Context) (store.End, error) { return store.Committed, nil }
func (nullUnit) Fault(error) store.Fault                   { return store.FaultHandler }
func (nullUnit) Rollback(context.Context) error            { return nil }
func (nullUnit) Next(_ context.Context, marks []store.Mark) (store.End, []store.Status, error) {
	return store.Committed, allNew[:len(marks)], nil
}

// nullFences asks for the places of messages, besides.
type nullFences struct{ nullMarks }

func (nullFences) Keyless() bool { return true }

func (nullFences) Applied(context.Context, store.Scope, string, int) (store.Applied, error) {
	return store.Applied{Offset: -1}, nil
}

func (nullFences) RestartFence(_ context.Context, _ store.Scope, _ string, _ int, expected store.Applied, offset int64) (store.Applied, error) {
	return store.Applied{Offset: offset, Epoch: expected.Epoch + 1}, nil
}
