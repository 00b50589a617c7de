package outbox_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// printer is a destination that confirms what it prints.
type printer struct{ done context.CancelFunc }

func (p printer) Publish(_ context.Context, events []store.Event) []error {
	for _, e := range events {
		fmt.Printf("%s to %s: %s\n", e.Type, e.Topic, e.Payload)
	}
	p.done()
	return nil
}

// A handler writes an event in its transaction; a relay publishes it after the commit. The
// message is delivered twice and has one event, whose id follows from the message.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := memstore.New()
	relay, err := outbox.NewRelay(s, map[string]outbox.Publisher{"partners": printer{cancel}})
	if err != nil {
		log.Fatal(err)
	}
	events, err := outbox.NewWriter(s, outbox.WithWake(relay.Wake))
	if err != nil {
		log.Fatal(err)
	}
	guard, err := dedup.NewTx(s, "payments", dedup.FromHeader("payment-id"), 30*24*time.Hour, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if _, err := tx.Add(ctx, "balance", 250); err != nil {
			return err
		}
		return events.WriteTx(ctx, tx, store.Event{
			Destination: "partners", Topic: "receipts", Key: []byte("ada"), Type: "payment.booked", Payload: m.Body,
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	payment := dedup.Message{Headers: []dedup.Header{{Key: "payment-id", Value: []byte("p1")}}, Body: []byte("250 for ada")}
	for range 2 {
		fmt.Println(guard.Process(ctx, payment).Outcome)
	}
	if err := relay.Run(ctx); err != nil { // until the printer has printed
		log.Fatal(err)
	}
	fmt.Println("balance:", s.Get("balance"))
	// Output:
	// applied
	// duplicate
	// payment.booked to receipts: 250 for ada
	// balance: 250
}
