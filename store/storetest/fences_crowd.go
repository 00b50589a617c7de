package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/semel-dev/semel/store"
)

// positionCrowdRules are about owners that do not know of each other.
func positionCrowdRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"three owners of a partition",
		"However many owners read a partition at once, each from where it likes, every message in it has its effect once.",
		func(e *exam, c *marksCase[TTx]) {
			const messages = 60
			ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
			defer cancel()
			owners := make(chan error, 3)
			for range cap(owners) {
				s := c.openFenced(e)
				go func() { owners <- s.own(ctx, messages) }()
			}
			for range cap(owners) {
				e.check("an owner", <-owners)
			}
			s := c.openFenced(e)
			for i := range messages {
				s.effects(fmt.Sprint("message ", i), 1)
			}
			s.applied("log", 0, s.upTo("log", 0, messages-1))
		},
	}}
}

// own reads the partition from its beginning, in batches, of which some fail and are read again.
func (s *fencedStore[TTx]) own(ctx context.Context, messages int) error {
	for next := 0; next < messages; {
		var marks []store.Mark
		for i := next; i < min(next+1+rand.IntN(5), messages); i++ {
			marks = append(marks, s.at("log", 0, int64(i)))
		}
		u, statuses, err := s.Marks.Begin(ctx, marks)
		if err != nil {
			if f := s.Marks.Fault(err); f == store.FaultConflict || f == store.FaultBusy {
				continue
			}
			return err
		}
		for i := range marks {
			if statuses[i] == store.New {
				if err := s.Effect(ctx, u.Tx(), fmt.Sprint("message ", next+i)); err != nil {
					return err
				}
			}
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
		if rand.IntN(4) == 0 {
			if err := u.Rollback(ctx); err != nil {
				return err
			}
			continue
		}
		if _, err := u.Commit(ctx); err != nil {
			return err
		}
		next += len(marks)
	}
	return nil
}
