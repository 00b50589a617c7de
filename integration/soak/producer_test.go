//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// produce puts the plan into the lanes, all of them at the same time, no further ahead of the consumers than
// the window. A chunk that is not confirmed is sent again, so some are there twice.
func (w *world) produce(ctx context.Context, window int) error {
	errs := make(chan error, lanes)
	var running sync.WaitGroup
	for lane, list := range w.plan.lanes {
		running.Go(func() {
			for len(list) > 0 {
				n := min(chunk, len(list))
				if err := w.await(ctx, func() bool { return w.backlog() < window }); err != nil {
					errs <- fmt.Errorf("produce into lane %d: the consumers do not get on: %w", lane, err)
					return
				}
				if err := w.put(ctx, lane, list[:n]); err != nil {
					errs <- fmt.Errorf("produce into lane %d: %w", lane, err)
					return
				}
				list = list[n:]
			}
		})
	}
	running.Wait()
	close(errs)
	return <-errs
}

// put sends a chunk until it is confirmed.
func (w *world) put(ctx context.Context, lane int, ms []message) error {
	return until(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		places, err := w.broker.produce(ctx, lane, ms)
		if err != nil {
			w.tally.add("producer retries")
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.produced += len(ms)
		for i, m := range ms {
			w.places[m.ID] = append(w.places[m.ID], places[i])
		}
		return nil
	})
}

// backlog is how many copies have been produced and not settled yet.
func (w *world) backlog() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.produced - w.settled()
}

// republish puts messages that are done into other lanes, as somebody does who replays a part of history.
func (w *world) republish(ctx context.Context, rng *rand.Rand, n int) error {
	var ids []string
	err := until(ctx, func(ctx context.Context) (err error) {
		if ids, err = w.doneByAll(ctx); err == nil && len(ids) == 0 {
			err = errors.New("no message is done by all groups")
		}
		return err
	})
	if err != nil {
		return err
	}
	var list [lanes][]message
	for range n {
		m := w.plan.messages[ids[rng.IntN(len(ids))]]
		lane := (m.Lane + 1 + rng.IntN(lanes-1)) % lanes
		list[lane] = append(list[lane], m)
	}
	for lane, ms := range list {
		if len(ms) > 0 {
			if err := w.put(ctx, lane, ms); err != nil {
				return err
			}
		}
	}
	w.tally.addN("published again when done", n)
	return nil
}

// doneByAll are the messages that every group has done: what is to come may not be overtaken by a copy of it.
func (w *world) doneByAll(ctx context.Context) ([]string, error) {
	done, groups := map[string]int{}, 0
	for _, g := range w.groups {
		if g.name == placed {
			continue // to it a copy is another message
		}
		groups++
		rows, err := w.pool.Query(ctx, "select distinct id from "+g.name+".effects")
		if err != nil {
			return nil, err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			done[id]++
		}
	}
	maps.DeleteFunc(done, func(_ string, n int) bool { return n < groups })
	return slices.Sorted(maps.Keys(done)), nil
}

// await polls the ledgers until f is true.
func (w *world) await(ctx context.Context, f func() bool) error {
	for {
		if err := w.look(); err != nil {
			return err
		}
		if f() {
			return nil
		}
		if !pause(ctx, 25*time.Millisecond) {
			return ctx.Err()
		}
	}
}
