//go:build unix

package soak

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/dedup"
)

// group is the consumers of one name. They divide the messages among themselves, and have a group or durables of the
// broker, tables and a ledger of their own: every group has to have the effect of every message.
type group struct {
	name   string
	modes  []mode // of its processes
	ledger *ledger
	guard  *dedup.TxGuard[pgx.Tx] // of an operator
}

// Each group leaves it to something else of the library to decide what is new.
const (
	payments = "payments" // marks
	fenced   = "fenced"   // marks and positions
	placed   = "placed"   // positions alone
	parking  = "parking"  // marks, and keys that wait behind what was given up
	stored   = "stored"   // marks of what is stored first and done later
)

// groupsOf are those that a broker can serve. Positions need a log that is read in order.
func groupsOf(kind string) []*group {
	list := []*group{{name: payments, modes: []mode{each, batched, together}}}
	if kind == "kafka" {
		list = append(list, &group{name: fenced, modes: []mode{each, batched}}, &group{name: placed, modes: []mode{each, together}})
	}
	return append(list, &group{name: parking, modes: []mode{each, batched}}, &group{name: stored, modes: []mode{each, batched}})
}

// fences says whether the group has positions.
func fences(name string) bool { return name == fenced || name == placed }

func (g *group) receipts() string { return receiptsOf(g.name) }

// receiptsOf is the topic of a group's events.
func receiptsOf(name string) string { return "receipts." + name }

// progress is work done. What is done again after a reset counts for less, or a replay would use up all faults.
func (g *group) progress() int { return g.ledger.distinct() + g.ledger.again()/8 }

// look reads what is new in all journals.
func (w *world) look() error {
	for _, g := range w.groups {
		if _, err := g.ledger.look(); err != nil {
			return err
		}
	}
	return nil
}

// settled is how many places of the log the slowest group has settled.
func (w *world) settled() int {
	return w.least(func(g *group) int { return g.ledger.distinct() })
}

func (w *world) least(of func(g *group) int) int {
	n := of(w.groups[0])
	for _, g := range w.groups[1:] {
		n = min(n, of(g))
	}
	return n
}

// consumers are the slots of the group.
func (w *world) consumers(g *group) (list []*slot) {
	for _, s := range w.slots {
		if s.group == g {
			list = append(list, s)
		}
	}
	return list
}

// follow tells the ledger of a group with positions how far they have come, because what was applied and not noted when its
// process died is never delivered again.
func (w *world) follow(ctx context.Context, g *group) {
	for pause(ctx, 200*time.Millisecond) {
		for lane := range lanes {
			if at, err := g.guard.Applied(ctx, kafkaTopic, lane); err == nil { // the database may be down
				g.ledger.advance(lane, at.Offset)
			}
		}
	}
}
