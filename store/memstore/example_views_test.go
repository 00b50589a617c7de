package memstore_test

import (
	"context"
	"fmt"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// A message dies and parks its ordering key: the next message of the key is blocked and goes behind
// it. Once both were run again, the key is free.
func ExampleStore_Revive() {
	ctx := context.Background()
	s := memstore.New()
	billing, _ := s.Scope(ctx, "billing", store.Forever)
	message := func(name string, state store.LetterState) {
		unit, statuses, err := s.Begin(ctx, []store.Mark{{
			Scope: billing, Key: store.DigestKey([]byte(name)), Order: store.OrderID([]byte("alice")),
		}})
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = s.BuryTx(ctx, unit.Tx(), store.DeadLetter{Consumer: "billing", KeyText: []byte(name), Order: []byte("alice"), State: state})
		_, _ = unit.Commit(ctx)
		fmt.Printf("%s is %s and now %s\n", name, statuses[0], state)
	}
	message("payment-1", store.Dead)
	message("payment-2", store.Waiting)

	for {
		keys, err := s.ParkedKeys(ctx, "billing", 1)
		if err != nil || len(keys) == 0 {
			break
		}
		unit, letter, err := s.Revive(ctx, keys[0].Head)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = unit.Tx().Add(ctx, "payments", 1)
		end, _ := unit.Commit(ctx)
		fmt.Printf("%s was run again: %s, %d waiting behind\n", letter.KeyText, end, keys[0].Waiting)
	}
	fmt.Println("payments:", s.Get("payments"))
	// Output:
	// payment-1 is new and now dead
	// payment-2 is blocked and now waiting
	// payment-1 was run again: committed, 1 waiting behind
	// payment-2 was run again: committed, 0 waiting behind
	// payments: 2
}

// A consumer that reads a log in order keeps one position and no marks.
func ExampleStore_Fenced() {
	ctx := context.Background()
	s := memstore.New()
	fenced := s.Fenced()
	billing, _ := fenced.Scope(ctx, "billing", store.Forever)

	for _, offset := range []int64{7, 8, 7, 8, 9} {
		unit, statuses, err := fenced.Begin(ctx, []store.Mark{{
			Scope: billing, Place: &store.Place{Log: "payments", Partition: 3, Offset: offset},
		}})
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = unit.Commit(ctx)
		fmt.Println(offset, statuses[0])
	}
	at, _ := fenced.Applied(ctx, billing, "payments", 3)
	fmt.Println("applied up to", at.Offset)
	// Output:
	// 7 new
	// 8 new
	// 7 seen
	// 8 seen
	// 9 new
	// applied up to 9
}
