package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store/memstore"
)

// Messages are kept first, and acknowledged; their work is done afterwards, in order. The first
// attempt fails, and the second message of its customer waits for it.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	byID := dedup.FromHeader("payment-id")
	s := memstore.New() // a pgstore.Store in a real program
	work, err := dedup.NewTx(s, "billing", byID, 90*24*time.Hour, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if string(m.Body) == "first" && m.Attempt == 1 {
			return errors.New("the tax office does not answer")
		}
		_, err := tx.Add(ctx, "payments", 1)
		fmt.Printf("%s: %s, attempt %d\n", m.Key, m.Body, m.Attempt)
		if string(m.Body) == "second" {
			stop()
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	box := memstore.New() // a schema of its own in a real program
	in, err := inbox.New(box, "billing", byID, 30*24*time.Hour, work,
		inbox.WithLimit(time.Minute),
		inbox.WithRelay(outbox.WithRetry(outbox.Retry{MaxAttempts: 5, MinDelay: time.Millisecond, MaxDelay: time.Second})))
	if err != nil {
		log.Fatal(err)
	}
	// What a consumer such as kafkasub does with what its broker delivers, here with one
	// message twice.
	for i, body := range []string{"first", "first", "second"} {
		id := []byte(body)
		m := dedup.Message{Key: []byte("ada"), Headers: []dedup.Header{{Key: "payment-id", Value: id}}, Body: id}
		fmt.Printf("delivery %d: %s\n", i+1, in.Intake().Process(ctx, m).Outcome)
	}
	if err := in.Run(ctx); err != nil { // until the second payment is done
		log.Fatal(err)
	}
	fmt.Println("payments:", s.Get("payments"))
	// Output:
	// delivery 1: applied
	// delivery 2: duplicate
	// delivery 3: applied
	// ada: first, attempt 2
	// ada: second, attempt 1
	// payments: 2
}
