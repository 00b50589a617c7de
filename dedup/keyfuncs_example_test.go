package dedup_test

import (
	"fmt"

	"github.com/semel-dev/semel/dedup"
)

// One event that comes over Kafka in headers and over NATS as a JSON body is one message.
func ExampleFromCloudEvent() {
	key := dedup.FromCloudEvent()
	overKafka := dedup.Message{
		Headers: []dedup.Header{
			{Key: "ce_specversion", Value: []byte("1.0")},
			{Key: "ce_source", Value: []byte("/shop")},
			{Key: "ce_id", Value: []byte("0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e")},
		},
		Body: []byte("what the event is about"),
	}
	overNATS := dedup.Message{
		Headers: []dedup.Header{{Key: "Content-Type", Value: []byte("application/cloudevents+json")}},
		Body:    []byte(`{"specversion":"1.0","source":"/shop","id":"0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e","data":{}}`),
	}
	a, err := key(overKafka)
	fmt.Printf("%s %v\n", a.Bytes(), err)
	b, err := key(overNATS)
	fmt.Printf("%s %v\n", b.Bytes(), err)
	fmt.Println("one key:", a.Stored() == b.Stored())
	at, ordered := a.Stored().Time()
	fmt.Println("in the order of", at.UTC(), ordered)
	// Output:
	// /shop 0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e <nil>
	// /shop 0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e <nil>
	// one key: true
	// in the order of 2024-11-04 00:43:22.878 +0000 UTC true
}

// The converter that a connector is configured with decides how an id is written, not which id
// it is.
func ExampleFromDebeziumOutbox() {
	key := dedup.FromDebeziumOutbox()
	for _, written := range []string{
		`order-42`,
		`"order-42"`,
		`{"schema":{"type":"string","optional":false},"payload":"order-42"}`,
	} {
		k, err := key(dedup.Message{Headers: []dedup.Header{{Key: "id", Value: []byte(written)}}})
		fmt.Printf("%s %v\n", k.Bytes(), err)
	}
	// Output:
	// order-42 <nil>
	// order-42 <nil>
	// order-42 <nil>
}

// An event from an outbox of this library keeps its id on every road.
func ExampleFromEventID() {
	key := dedup.FromEventID()
	const id = "0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e"
	overKafka := dedup.Message{
		Position: dedup.Position{Broker: "kafka"},
		Headers:  []dedup.Header{{Key: "id", Value: []byte(id)}},
	}
	asWebhook := dedup.Message{
		Position: dedup.Position{Broker: "webhook"},
		Headers:  []dedup.Header{{Key: "webhook-id", Value: []byte(id)}},
	}
	a, err := key(overKafka)
	fmt.Printf("%s %v\n", a.Bytes(), err)
	b, err := key(asWebhook)
	fmt.Printf("%s %v\n", b.Bytes(), err)
	fmt.Println("one key:", a.Stored() == b.Stored())
	// Output:
	// 0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e <nil>
	// 0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e <nil>
	// one key: true
}
