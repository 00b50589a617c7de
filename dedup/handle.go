package dedup

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/semel-dev/semel/store"
)

// runs are the handler executions of one transaction; what waits for its commit hangs on them.
type runs []*store.Run

func (rs runs) committed() {
	for _, r := range rs {
		r.Committed()
	}
}

// handleEach calls a handler of single messages for one after another and reports at which
// it failed.
func handleEach[TTx any](h TxHandlerFunc[TTx], limit time.Duration) handling[TTx] {
	return func(ctx context.Context, tx TTx, ms []Message, rs *runs) (int, error) {
		for i := range ms {
			err := contain(ctx, limit, func(ctx context.Context) error {
				run := ms[i].run()
				*rs = append(*rs, run)
				return h(store.WithRun(ctx, run), tx, ms[i])
			})
			if err != nil {
				return i, err
			}
		}
		return nobody, nil
	}
}

// nobody: it is not known which message failed.
const nobody = -1

// handleTogether calls a handler of many messages once.
func handleTogether[TTx any](h TxBatchHandlerFunc[TTx], limit time.Duration) handling[TTx] {
	return func(ctx context.Context, tx TTx, ms []Message, rs *runs) (int, error) {
		run := store.NewRun(store.Origin{})
		*rs = append(*rs, run)
		return nobody, contain(ctx, limit, func(ctx context.Context) error { return h(store.WithRun(ctx, run), tx, ms) })
	}
}

// contain makes an error of a panic, so that one message cannot take the process down and
// with it the messages beside it, and ends the context at the limit, where there is one.
func contain(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if limit > 0 {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = limited
	}
	return f(ctx)
}
