package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/semel-dev/semel/integration/servers/servertest"
)

const childEnv = "SEMEL_CRASH_CHILD"

// TestMain makes a child of the test binary where the parent asked for one.
func TestMain(m *testing.M) {
	order, isChild := os.LookupEnv(childEnv)
	if !isChild {
		servertest.Main(m)
		return
	}
	var o orders
	err := json.Unmarshal([]byte(order), &o)
	if err == nil {
		err = o.run(context.Background())
	}
	fmt.Fprintln(os.Stderr, "crash child:", err)
	os.Exit(1)
}

// orders tell a child what to be and where to die.
type orders struct {
	Role  string // kafka, nats, relay
	DSN   string
	NATS  string
	Kafka []string
	Group string
	Point point
	After int // at the how manieth time
}
