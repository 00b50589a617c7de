package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// A payment is delivered twice and booked once: the mark and the booking are in one transaction.
func Example() {
	s := memstore.New()
	book := func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		_, err := tx.Add(ctx, "balance", 100)
		return err
	}
	guard, err := dedup.NewTx(s, "bookkeeping", dedup.FromHeader("payment-id"), 30*24*time.Hour, book)
	if err != nil {
		fmt.Println(err)
		return
	}
	payment := dedup.Message{Headers: []dedup.Header{{Key: "payment-id", Value: []byte("pay_42")}}}
	for range 3 {
		fmt.Println(guard.Process(context.Background(), payment).Outcome)
	}
	fmt.Println("balance:", s.Get("balance"))
	// Output:
	// applied
	// duplicate
	// duplicate
	// balance: 100
}

// Each message of a batch has its own result; they are committed together, and one that comes
// twice in the batch counts once.
func ExampleTxGuard_ProcessBatch() {
	s := memstore.New()
	book := func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		_, err := tx.Add(ctx, "balance", int64(len(m.Body)))
		return err
	}
	guard, err := dedup.NewTx(s, "bookkeeping", dedup.FromHeader("payment-id"), 30*24*time.Hour, book)
	if err != nil {
		fmt.Println(err)
		return
	}
	payment := func(id, body string) dedup.Message {
		return dedup.Message{Headers: []dedup.Header{{Key: "payment-id", Value: []byte(id)}}, Body: []byte(body)}
	}
	results := guard.ProcessBatch(context.Background(), []dedup.Message{
		payment("pay_1", "$"), payment("pay_2", "$$"), payment("pay_1", "$"),
	})
	for _, r := range results {
		fmt.Println(r.Outcome)
	}
	fmt.Println("balance:", s.Get("balance"))
	// Output:
	// applied
	// applied
	// duplicate
	// balance: 3
}

// A handler for many messages writes them with few statements. Only the new ones reach it.
func ExampleNewTxBatch() {
	s := memstore.New()
	book := func(ctx context.Context, tx *memstore.Tx, ms []dedup.Message) error {
		_, err := tx.Add(ctx, "payments", int64(len(ms)))
		return err
	}
	guard, err := dedup.NewTxBatch(s, "bookkeeping", dedup.FromJSON("/payment/id"), 30*24*time.Hour, book)
	if err != nil {
		fmt.Println(err)
		return
	}
	first := dedup.Message{Body: []byte(`{"payment": {"id": "pay_1"}}`)}
	second := dedup.Message{Body: []byte(`{"payment": {"id": "pay_2"}}`)}
	guard.Process(context.Background(), first)
	for _, r := range guard.ProcessBatch(context.Background(), []dedup.Message{first, second}) {
		fmt.Println(r.Outcome)
	}
	fmt.Println("payments:", s.Get("payments"))
	// Output:
	// duplicate
	// applied
	// payments: 2
}

// What a handler returns is rolled back, and tells the consumer what to do next.
func ExamplePermanent() {
	charge := func(_ context.Context, _ *memstore.Tx, m dedup.Message) error {
		switch string(m.Body) {
		case "no such account":
			return dedup.Permanent(errors.New("no such account"))
		case "too many requests":
			return dedup.RetryAfter(time.Minute, errors.New("too many requests"))
		}
		return errors.New("connection refused")
	}
	s := memstore.New()
	guard, err := dedup.NewTx(s, "billing", dedup.FromHeader("id"), 30*24*time.Hour, charge)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, body := range []string{"connection refused", "too many requests", "no such account"} {
		m := dedup.Message{Headers: []dedup.Header{{Key: "id", Value: fmt.Append(nil, i)}}, Body: []byte(body)}
		r := guard.Process(context.Background(), m)
		fmt.Printf("%s: %v; ", r.Outcome, r.Err)
		// A consumer's policy asks these questions.
		if delay, ok := dedup.RetryDelay(r.Err); ok {
			fmt.Println("again in", delay)
		} else if dedup.IsPermanent(r.Err) {
			fmt.Println("never again:", guard.Bury(context.Background(), m, r.Err).Outcome)
		} else {
			fmt.Println("again, after the consumer's own delay")
		}
	}
	letters, err := s.ListDead(context.Background(), store.LetterFilter{Consumer: "billing"}, 0, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("buried: %s, because of %q\n", letters[0].KeyText, letters[0].Reason)
	// Output:
	// failed: connection refused; again, after the consumer's own delay
	// failed: too many requests; again in 1m0s
	// failed: no such account; never again: buried
	// buried: 2, because of "no such account"
}

// Messages with an id of the producer's are told apart by it, the others by their place in the log.
// The first catches a producer's retry, too; the second redelivery alone.
func ExampleFirstOf() {
	key := dedup.FirstOf(dedup.FromHeader("event-id"), dedup.FromCoordinates())
	place := dedup.Position{Broker: "kafka", Log: "orders", Offset: 42, Time: time.UnixMilli(1_709_208_000_000)}

	named, err := key(dedup.Message{Position: place, Headers: []dedup.Header{{Key: "event-id", Value: []byte("evt_7")}}})
	fmt.Printf("%q %v\n", named.Bytes(), err)
	nameless, err := key(dedup.Message{Position: place})
	fmt.Printf("%q %v\n", nameless.Bytes(), err)
	_, err = key(dedup.Message{Position: dedup.Position{Broker: "webhook"}})
	fmt.Println(err)
	// Output:
	// "evt_7" <nil>
	// "\x05kafka\x06orders\x00T" <nil>
	// no key: a message from "webhook" has no place in a log
}

// A tenant's invoice numbers are unique within the tenant only.
func ExampleComposite() {
	key := dedup.Composite(dedup.FromHeader("tenant"), dedup.FromJSON("/invoice/number"))
	k, err := key(dedup.Message{
		Headers: []dedup.Header{{Key: "tenant", Value: []byte("acme")}},
		Body:    []byte(`{"invoice": {"number": 2024}}`),
	})
	fmt.Printf("%s %v\n", k.Bytes(), err)
	// Output: acme/2024 <nil>
}

// Where the effect is elsewhere, a lease lets one holder at a time work on a message. The token
// lets the place of the effect refuse a holder that was overtaken.
func ExampleNew() {
	send := func(_ context.Context, m dedup.Message) error {
		fmt.Printf("send %s under a token: %t\n", m.Body, m.FencingToken() > 0)
		return nil
	}
	guard, err := dedup.New(memstore.New(), "mailer", dedup.FromHeader("id"), send, dedup.WithLease(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	m := dedup.Message{Headers: []dedup.Header{{Key: "id", Value: []byte("mail-1")}}, Body: []byte("a receipt")}
	fmt.Println(guard.Process(context.Background(), m).Outcome)
	fmt.Println(guard.Process(context.Background(), m).Outcome)
	// Output:
	// send a receipt under a token: true
	// applied
	// duplicate
}
