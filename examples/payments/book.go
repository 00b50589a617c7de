package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// book adds a payment to a balance, which is plainly wrong when done twice, and sends a
// receipt. Both commit together with the mark of the message, or not at all.
func book(receipts *outbox.Writer[pgx.Tx]) dedup.TxHandlerFunc[pgx.Tx] {
	return func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		var p struct {
			Account string
			Cents   int64
		}
		if err := json.Unmarshal(m.Body, &p); err != nil {
			return dedup.Permanent(err) // no further attempt can mend it: dead letter
		}
		tag, err := tx.Exec(ctx, "update accounts set cents = cents + $2 where id = $1", p.Account, p.Cents)
		if err != nil {
			return err // rolled back, and tried again after a while
		}
		if tag.RowsAffected() != 1 {
			return dedup.Permanent(fmt.Errorf("there is no account %q", p.Account))
		}
		return receipts.WriteTx(ctx, tx, store.Event{
			Destination: "kafka", Topic: "receipts", Key: []byte(p.Account), Type: "payment.booked", Payload: m.Body,
		})
	}
}
