package natssub_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/consumers/natssub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/store/memstore"
)

// A publisher sends a payment twice, long after the duplicate window. Both copies are
// delivered, and the balance moves once.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	server, err := servers.StartNATS(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "PAYMENTS", Subjects: []string{"payments.>"}}); err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"payment-41", "payment-42", "payment-42"} {
		msg := &nats.Msg{Subject: "payments.captured", Header: nats.Header{"Payment-Id": {id}}}
		if _, err := js.PublishMsg(ctx, msg); err != nil {
			fmt.Println(err)
			return
		}
	}

	marks := memstore.New() // pgstore in a real program: it survives the process
	seen := make(chan string, 3)
	guard, err := dedup.NewTx(marks, "billing", dedup.FromHeader("Payment-Id"), 30*24*time.Hour,
		func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
			_, err := tx.Add(ctx, "balance", -100)
			return err
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	consumer, err := natssub.New(js, "PAYMENTS",
		jetstream.ConsumerConfig{Durable: "billing", AckWait: 10 * time.Second},
		told{guard, seen}, natssub.WithConcurrency(1))
	if err != nil {
		fmt.Println(err)
		return
	}

	running, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- consumer.Run(running) }()
	for range 3 {
		fmt.Println(<-seen)
	}
	end()
	fmt.Println("clean end:", <-done == nil)
	fmt.Println("balance:", marks.Get("balance"))
	// Output:
	// payment-41 applied
	// payment-42 applied
	// payment-42 duplicate
	// clean end: true
	// balance: -200
}

// told is a guard whose results can be watched.
type told struct {
	*dedup.TxGuard[*memstore.Tx]
	seen chan<- string
}

func (t told) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	results := t.TxGuard.ProcessEach(ctx, ms)
	for i, r := range results {
		id, _ := ms[i].Header("Payment-Id")
		t.seen <- fmt.Sprintf("%s %s", id, r.Outcome)
	}
	return results
}
