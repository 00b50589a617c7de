package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/semel-dev/semel/store"
)

// parkCrowdRules are about messages in order, and those who run their letters, at once.
func parkCrowdRules[TTx any]() []lettersRule[TTx] {
	return []lettersRule[TTx]{{
		"in order under pressure",
		"Whatever fails and whenever it is run again, the messages of an ordering key have their effects one after the other and once, and no letter is left behind.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			const keys, messages = 3, 25
			ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
			defer cancel()
			lanes := make(chan error, keys)
			for k := range keys {
				go func() { lanes <- c.lane(ctx, k, messages) }()
			}
			done, revivers := make(chan struct{}), make(chan error, 2)
			for range 2 {
				go func() { revivers <- c.reviver(ctx, done) }()
			}
			for range keys {
				e.check("a lane", <-lanes)
			}
			close(done)
			for range 2 {
				e.check("a reviver", <-revivers)
			}
			c.listed("", 0, 10)
			for k := range keys {
				c.marks.effects(effectOf(k), messages)
			}
		},
	}}
}

func effectOf(key int) string { return fmt.Sprintf("key %d", key) }

// lane does what a guard does with the messages of one key. Every third one fails, and goes to the
// letters.
func (c *lettersCase[TTx]) lane(ctx context.Context, key, messages int) error {
	for i := range messages {
		m := c.ordered("m", effectOf(key), i)
		for failed := false; ; {
			u, statuses, err := c.Marks.Begin(ctx, []store.Mark{m})
			if c.again(err) {
				continue
			}
			if err != nil {
				return err
			}
			work := func(tx TTx) error { return c.apply(ctx, tx, key, i) }
			switch {
			case statuses[0] == store.Seen:
				return fmt.Errorf("message %d of key %d is %q", i, key, statuses[0])
			case statuses[0] == store.Blocked:
				work = func(tx TTx) error { return c.Burier.BuryTx(ctx, tx, c.numbered(key, i, store.Waiting)) }
			case failed:
				work = func(tx TTx) error { return c.Burier.BuryTx(ctx, tx, c.numbered(key, i, store.Dead)) }
			case rand.IntN(3) == 0:
				failed = true
				if err := u.Rollback(ctx); err != nil {
					return err
				}
				continue
			}
			if c.finish(ctx, u, work, &err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("message %d of key %d: %w", i, key, err)
			}
			break
		}
	}
	return nil
}

// reviver runs the letters of parked keys until there are none and no more come.
func (c *lettersCase[TTx]) reviver(ctx context.Context, done <-chan struct{}) error {
	for {
		over := false
		select {
		case <-done:
			over = true
		default:
		}
		parked, err := c.Letters.ParkedKeys(ctx, "", 10)
		if err != nil {
			return err
		}
		for _, k := range parked {
			if err := c.runAgain(ctx, k.Head); err != nil {
				return fmt.Errorf("letter %d: %w", k.Head, err)
			}
		}
		if len(parked) == 0 && over {
			return nil
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
	}
}

func (c *lettersCase[TTx]) runAgain(ctx context.Context, id int64) error {
	u, d, err := c.Reviver.Revive(ctx, id)
	if c.again(err) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrBehind) {
		return nil
	}
	if err != nil {
		return err
	}
	if rand.IntN(3) == 0 {
		if err := u.Rollback(ctx); err != nil {
			return err
		}
		if err := c.Letters.FailDead(ctx, id, "failed again"); !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return nil
	}
	if c.finish(ctx, u, func(tx TTx) error { return c.apply(ctx, tx, d.Partition, int(d.Offset)) }, &err) {
		return nil
	}
	return err
}

// apply writes the effect of a message if those of all before it are there, and no other.
func (c *lettersCase[TTx]) apply(ctx context.Context, tx TTx, key, i int) error {
	if n := c.Effects(effectOf(key)); n != i {
		return fmt.Errorf("message %d of key %d runs after %d others", i, key, n)
	}
	return c.Effect(ctx, tx, effectOf(key))
}

// numbered is a letter that says which message it is.
func (c *lettersCase[TTx]) numbered(key, i int, state store.LetterState) store.DeadLetter {
	d := c.queued("m", effectOf(key), state)
	d.Partition, d.Offset = key, int64(i)
	return d
}

// finish works for a while and commits. It reports whether all of it has to be done once more.
func (c *lettersCase[TTx]) finish(ctx context.Context, u store.Unit[TTx], work func(tx TTx) error, err *error) (again bool) {
	defer func() { _ = u.Rollback(ctx) }()
	time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
	if *err = work(u.Tx()); *err == nil {
		_, *err = u.Commit(ctx)
	}
	return c.again(*err)
}

func (c *lettersCase[TTx]) again(err error) bool {
	f := c.Marks.Fault(err)
	return f == store.FaultConflict || f == store.FaultBusy
}
