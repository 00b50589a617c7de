package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// line is one row of the reckoning: what had to be there, and what is.
type line struct {
	What, Sum       string
	Expected, Found int   // effects
	Lost, Doubled   int   // effects that are missing, and effects beyond the first one
	Owed, Paid      int64 // cents
	OffAccounts     int   // accounts that do not have the sum of their payments
}

func (l line) right() bool {
	return l.Lost == 0 && l.Doubled == 0 && l.Owed == l.Paid && l.OffAccounts == 0
}

// reckon holds what the databases say against the plan, payment by payment and account by
// account.
func reckon(ctx context.Context, h *house, p plan) ([]line, error) {
	bank, err := h.effects(ctx, h.stage.bank(), "bookings")
	if err != nil {
		return nil, err
	}
	receiver, err := h.effects(ctx, h.stage.receiver(), "receipts")
	if err != nil {
		return nil, err
	}
	return []line{
		compare("payments booked", "money on the accounts", p.payments, bank),
		compare("receipts counted", "money in the receipts", p.payments, receiver),
	}, nil
}

// effects is what one of the two applications has in its tables.
type effects struct {
	rows map[string]int // by payment
	sums map[int]int64  // by account
}

func compare(what, sum string, payments []payment, have effects) line {
	l := line{What: what, Sum: sum, Expected: len(payments)}
	due := map[int]int64{}
	for _, p := range payments {
		due[p.Account] += p.Cents
		l.Owed += p.Cents
		n := have.rows[p.ID]
		l.Found += n
		l.Lost += max(0, 1-n)
		l.Doubled += max(0, n-1)
	}
	for account, cents := range have.sums {
		l.Paid += cents
		if cents != due[account] {
			l.OffAccounts++
		}
	}
	return l
}

func (h *house) effects(ctx context.Context, schema, log string) (effects, error) {
	e := effects{map[string]int{}, map[int]int64{}}
	var payment string
	var n, account int
	var cents int64
	rows, _ := h.db.Query(ctx, fmt.Sprintf("select payment, count(*) from %s.%s group by payment", schema, log))
	_, err := pgx.ForEachRow(rows, []any{&payment, &n}, func() error { e.rows[payment] = n; return nil })
	if err != nil {
		return e, fmt.Errorf("count the %s: %w", log, err)
	}
	rows, _ = h.db.Query(ctx, fmt.Sprintf("select id, balance from %s.accounts", schema))
	_, err = pgx.ForEachRow(rows, []any{&account, &cents}, func() error { e.sums[account] = cents; return nil })
	if err != nil {
		return e, fmt.Errorf("read the accounts of the %s: %w", log, err)
	}
	return e, nil
}
