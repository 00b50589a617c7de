package memstore_test

import (
	"context"
	"fmt"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// A message is delivered three times. The mark and the booking are committed together, so
// the balance moves once.
func Example() {
	ctx := context.Background()
	s := memstore.New()
	billing, _ := s.Scope(ctx, "billing", store.Forever)
	mark := store.Mark{Scope: billing, Key: store.DigestKey([]byte("payment-42"))}

	for range 3 {
		unit, statuses, err := s.Begin(ctx, []store.Mark{mark})
		if err != nil {
			fmt.Println(err)
			return
		}
		if statuses[0] == store.New {
			_, _ = unit.Tx().Add(ctx, "balance/alice", -100)
		}
		end, _ := unit.Commit(ctx)
		fmt.Printf("the mark is %s, the transaction is %s\n", statuses[0], end)
	}
	fmt.Println("balance:", s.Get("balance/alice"))
	// Output:
	// the mark is new, the transaction is committed
	// the mark is seen, the transaction is committed
	// the mark is seen, the transaction is committed
	// balance: -100
}

// A handler looks at what its write makes and refuses by an error; the transaction is
// rolled back and nobody has seen any of it.
func ExampleTx_Add() {
	ctx := context.Background()
	s := memstore.New()
	move := func(from, to string, amount int64) error {
		return s.InTx(ctx, func(ctx context.Context, tx *memstore.Tx) error {
			left, err := tx.Add(ctx, from, -amount)
			if err != nil {
				return err
			}
			if left < 0 {
				return fmt.Errorf("%s has not got %d", from, amount)
			}
			_, err = tx.Add(ctx, to, amount)
			return err
		})
	}
	_ = s.InTx(ctx, func(ctx context.Context, tx *memstore.Tx) error { return tx.Put(ctx, "alice", 100) })

	fmt.Println(move("alice", "bob", 70))
	fmt.Println(move("alice", "bob", 70))
	fmt.Println(s.Get("alice"), s.Get("bob"))
	// Output:
	// <nil>
	// alice has not got 70
	// 30 70
}
