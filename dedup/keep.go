package dedup

import (
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// Forever is the time to keep marks that are never removed.
const Forever = store.Forever

// Keep implements [Keeper].
func (g *TxGuard[TTx]) Keep() time.Duration { return g.keep }

func checkKeep(keep time.Duration) error {
	switch {
	case keep == 0:
		return errors.New("the time to keep marks is zero: say how long after a message another one with its key may come, as in 30*24*time.Hour, or Forever")
	case keep < time.Minute:
		return fmt.Errorf("the time to keep marks is %s: a minute is the least, and days are usual", keep)
	}
	return nil
}
