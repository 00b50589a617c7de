package main

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// credit adds points to a customer, which is plainly wrong when done twice, and tells the
// customer. Both commit together with the mark of the message, or not at all.
func credit(mails *outbox.Writer[*sql.Tx]) dedup.TxHandlerFunc[*sql.Tx] {
	return func(ctx context.Context, tx *sql.Tx, m dedup.Message) error {
		var p struct {
			Customer string
			Points   int64
		}
		if err := json.Unmarshal(m.Body, &p); err != nil {
			return dedup.Permanent(err) // no further attempt can mend it: dead letter
		}
		_, err := tx.ExecContext(ctx, `insert into loyalty (customer, points) values ($1, $2)
			on conflict (customer) do update set points = loyalty.points + excluded.points`, p.Customer, p.Points)
		if err != nil {
			return err // rolled back, and tried again after a while
		}
		return mails.WriteTx(ctx, tx, store.Event{
			Destination: "kafka", Topic: "mails", Key: []byte(p.Customer), Type: "points.credited", Payload: m.Body,
		})
	}
}
