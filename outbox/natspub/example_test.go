package natspub_test

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/outbox/natspub"
	"github.com/semel-dev/semel/store"
)

// An event that is published twice, as after a crash of the relay, is confirmed twice and
// stored once while the stream's duplicate window lasts.
func Example() {
	ctx := context.Background()
	server, err := servers.StartNATS(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	conn, err := nats.Connect(server.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	closed := conn.StatusChanged(nats.CLOSED)
	defer func() { conn.Close(); <-closed }()
	js, _ := jetstream.New(conn)
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "PAYMENTS", Subjects: []string{"payments.>"}})
	if err != nil {
		fmt.Println(err)
		return
	}

	p, err := natspub.New(js, natspub.WithStream("PAYMENTS"))
	if err != nil {
		fmt.Println(err)
		return
	}
	events := []store.Event{{ID: store.NewID(), Destination: "nats", Topic: "payments.captured", Payload: []byte(`{"amount":100}`)}}
	fmt.Println(p.Publish(ctx, events), p.Publish(ctx, events))
	info, err := stream.Info(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stored:", info.State.Msgs)
	// Output:
	// [] []
	// stored: 1
}
