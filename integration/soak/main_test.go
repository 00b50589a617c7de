//go:build unix

package soak

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/semel-dev/semel/integration/servers/servertest"
)

const childEnv = "SEMEL_SOAK_CHILD"

// TestMain makes a child of the test binary where the parent asked for one.
func TestMain(m *testing.M) {
	order, isChild := os.LookupEnv(childEnv)
	if !isChild {
		_ = os.Unsetenv("KAFKA_BROKERS") // A broker that others use is not ours to kill.
		servertest.Main(m)
		return
	}
	var o orders
	err := json.Unmarshal([]byte(order), &o)
	if err == nil {
		err = o.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak child:", err)
		os.Exit(exitError)
	}
}

// How children end that are not killed. The Go runtime ends with 2 after a panic and the race
// detector with 66, so neither may be used here.
const (
	exitError  = 10
	exitOrphan = 11
)

// orders tell a child what to be.
type orders struct {
	Name    string // unique among all children of a run
	Role    string // consumer, relay, nats-server
	Broker  string // kafka, nats
	Group   string // of a consumer
	Mode    mode
	DSN     string // by way of the child's own proxy
	Addr    string // of the broker, by way of the child's own proxy
	Brokers []string
	Lanes   int
	Journal string

	Port  int // of a NATS server
	Store string
}

// mode is how a consumer handles messages.
type mode string

const (
	each     mode = "each"     // one transaction per message
	batched  mode = "batched"  // a handler of single messages, batches commit together
	together mode = "together" // a handler of batches, at REPEATABLE READ

	marksOutside mode = "marks outside" // wrong: the mark, or the position, in a transaction of its own, after the effect
	acksEarly    mode = "acks early"    // wrong: acknowledged before the commit
	parksNothing mode = "parks nothing" // wrong: what comes behind a dead letter of its key is handled
	keepsNoKeys  mode = "keeps no keys" // wrong: positions alone, where a producer repeats itself
	storesLoose  mode = "stores loose"  // wrong: what is stored has no ordering key
)
