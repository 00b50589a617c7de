package servers_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		runChild()
	}
	servertest.Main(m)
}

const childVariable = "SEMEL_SERVERS_CHILD"

// runChild is what a copy of this test program does when the variable is set: it starts servers, says where they are,
// and waits to be killed.
func runChild() {
	ctx := context.Background()
	postgres, err := servers.StartPostgres(ctx, servers.WithFsync(false))
	if err != nil {
		panic(err)
	}
	var store string
	nats, err := servers.StartNATS(ctx, servers.WithNATSOptions(func(o *server.Options) { store = o.StoreDir }))
	if err != nil {
		panic(err)
	}
	fmt.Println(postgres.DSN(), store, nats.URL())
	select {}
}
