package main

import (
	"math/rand/v2"

	"github.com/semel-dev/semel/store"
)

const accounts = 64

// payment is the body of every message in this story.
type payment struct {
	ID      string `json:"id"`
	Account int    `json:"account"`
	Cents   int64  `json:"cents"`
}

// Where something goes or came from.
const (
	viaKafka   = "kafka"
	viaNATS    = "nats"
	viaWebhook = "webhook"
)

// delivery is one message to produce.
type delivery struct {
	payment payment
	via     string
	// twin sends a Kafka record to another partition than its payment's first one.
	twin bool
}

// plan is everything that will be produced, and what has to come out of it.
type plan struct {
	payments []payment
	waves    [][]delivery
	copies   int // deliveries beyond the first one of a payment
}

// newPlan makes up payments, a third of whose deliveries are copies, and deals them out to
// waves.
func newPlan(payments, waves int, seed uint64) plan {
	random := rand.New(rand.NewPCG(seed, 0))
	p := plan{waves: make([][]delivery, waves)}
	for i := range payments {
		pay := payment{
			ID:      store.NewID().String(),
			Account: 1 + random.IntN(accounts),
			Cents:   100 + random.Int64N(99_900),
		}
		p.payments = append(p.payments, pay)

		first := delivery{payment: pay, via: viaKafka}
		if random.IntN(100) < 45 {
			first.via = viaNATS
		}
		wave := i * waves / payments
		p.waves[wave] = append(p.waves[wave], first)
		for range copies(random) {
			w, d := copyOf(random, first, wave)
			w = min(w, waves-1)
			p.waves[w] = append(p.waves[w], d)
			p.copies++
		}
	}
	return p
}

// copies is how often a payment is sent again: half a time, on average.
func copies(random *rand.Rand) int {
	switch n := random.IntN(100); {
	case n < 55:
		return 0
	case n < 95:
		return 1
	default:
		return 2
	}
}

// copyOf sends a payment again, in one of the ways in which it happens.
func copyOf(random *rand.Rand, first delivery, wave int) (int, delivery) {
	again := first
	switch random.IntN(4) {
	case 0: // The producer lost the answer and tried again: right behind, under a new offset.
		return wave, again
	case 1: // Somebody ran the export a second time, later.
		return wave + 1, again
	case 2: // Two instances of the producer sent it at the same time.
		again.twin = true
		return wave, again
	default: // It comes over both brokers while one replaces the other.
		if again.via = viaNATS; first.via == viaNATS {
			again.via = viaKafka
		}
		return wave, again
	}
}

func deliveries(wave []delivery, via string) (n int) {
	for _, d := range wave {
		if d.via == via {
			n++
		}
	}
	return n
}
