package main

import "math/rand/v2"

// blow says when a process is killed: not by the clock but in the middle of its work, when so
// many messages have been reported since the last time. Those that it has just reported are
// not acknowledged yet, and others are still running.
type blow struct {
	at     []int // how many messages, for each kill
	what   string
	counts func(role string, seen *sighting) bool
	after  int // how many it was the last time
	struck int
	heard  int
}

// newBlows plans the kills: of the worker by what it takes from Kafka, while NATS delivers to it
// as well; of the relay by the receipts that arrive.
func newBlows(p plan, c config) map[string]*blow {
	random := rand.New(rand.NewPCG(c.Seed, 1))
	worker, relay := &blow{what: "records from Kafka"}, &blow{what: "receipts"}
	for i := range c.Kills {
		records, receipts := deliveries(p.waves[i], viaKafka), c.Payments/(c.Kills+1)
		worker.at = append(worker.at, records*(50+random.IntN(40))/100)
		relay.at = append(relay.at, receipts*(50+random.IntN(40))/100)
	}
	worker.counts = func(role string, seen *sighting) bool { return role == roleWorker && seen.Via == viaKafka }
	relay.counts = func(role string, seen *sighting) bool {
		return role == roleReceiver && seen.Outcome == "applied"
	}
	return map[string]*blow{roleWorker: worker, roleRelay: relay}
}

// due counts a message and says whether to strike now.
func (b *blow) due(role string, seen *sighting) bool {
	if b.struck == len(b.at) || !b.counts(role, seen) {
		return false
	}
	if b.heard++; b.heard < b.at[b.struck] {
		return false
	}
	b.after, b.heard = b.heard, 0
	b.struck++
	return true
}
