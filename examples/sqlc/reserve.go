package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/examples/sqlc/db"
)

// reserve takes the goods of an order from the stock. db.New takes the transaction that holds the
// message's mark where it otherwise takes a pool, so every generated query is part of it: mark,
// stock and reservation commit together, or not at all.
func reserve(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
	var order struct {
		Order, Sku string
		Quantity   int64
	}
	if err := json.Unmarshal(m.Body, &order); err != nil {
		return dedup.Permanent(err) // no further attempt can mend it: dead letter
	}
	queries := db.New(tx)
	err := queries.AddReservation(ctx, db.AddReservationParams{OrderID: order.Order, Sku: order.Sku, Quantity: order.Quantity})
	if err != nil {
		return err // rolled back, and tried again after a while
	}
	rows, err := queries.TakeFromStock(ctx, db.TakeFromStockParams{Sku: order.Sku, Quantity: order.Quantity})
	if err != nil {
		return err
	}
	if rows != 1 {
		// The reservation goes, too.
		return dedup.Permanent(fmt.Errorf("there are not %d of %q", order.Quantity, order.Sku))
	}
	return nil
}
