package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// summary is what the story comes to.
type summary struct {
	Naive          bool
	Payments       int
	Records        int // produced on Kafka
	Messages       int // produced on NATS
	Copies         int // among these
	Kills          map[string]int
	Bank, Receiver counts
	Events         int // written to the outbox
	Fates          map[fate]int
	CopiesVia      map[string]int // that reached the receiver
	Lines          []line
	Took           time.Duration
}

func (s *story) summary(ctx context.Context, took time.Duration) (summary, error) {
	lines, err := reckon(ctx, s.house, s.plan)
	if err != nil {
		return summary{}, err
	}
	sum := summary{
		Naive: s.Naive, Payments: s.Payments, Copies: s.plan.copies, Kills: s.tally.kills,
		Bank: count(s.tally.payments), Receiver: count(s.tally.receipts),
		Events: len(s.tally.receipts), Fates: s.tally.fates, CopiesVia: map[string]int{},
		Lines: lines, Took: took,
	}
	for _, wave := range s.plan.waves {
		sum.Records += deliveries(wave, viaKafka)
		sum.Messages += deliveries(wave, viaNATS)
	}
	for _, via := range []string{viaWebhook, viaKafka, viaNATS} {
		sum.CopiesVia[via] = count(s.tally.receipts, via).copies()
	}
	return sum, nil
}

func (s summary) lost() (n int) {
	for _, l := range s.Lines {
		n += l.Lost
	}
	return n
}

func (s summary) doubled() (n int) {
	for _, l := range s.Lines {
		n += l.Doubled
	}
	return n
}

// right is the verdict: every effect is there once, and the sums agree.
func (s summary) right() bool {
	for _, l := range s.Lines {
		if !l.right() {
			return false
		}
	}
	return len(s.Lines) > 0
}

// print writes the table that the story ends with.
func (s summary) print(to io.Writer) {
	copies := "copies turned away"
	if s.Naive {
		copies = "copies taken for new"
	}
	t := &table{to: to}
	t.section("Produced")
	t.number(1, "payments", s.Payments, "")
	t.number(1, "records on Kafka", s.Records, "")
	t.number(1, "messages on NATS", s.Messages, "")
	t.number(2, "copies among them", s.Copies, share(s.Copies, s.Records+s.Messages))

	t.section("Bank: a worker that was killed %s", times(s.Kills[roleWorker]))
	t.number(1, "deliveries, at least", s.Bank.Delivered+s.Bank.Unheard, "")
	t.number(1, copies, s.Bank.copies(), "")
	t.number(2, "delivered again by the broker", s.Bank.Again, "")
	t.number(2, "produced twice on one broker", s.Bank.Twice, "")
	t.number(2, "sent over both brokers", s.Bank.Both, "")
	t.number(2, "of these, side by side with the first", s.Bank.Overlapping, "")

	t.section("Outbox: a relay that was killed %s", times(s.Kills[roleRelay]))
	t.number(1, "events", s.Events, "")
	t.number(1, "webhook attempts", s.attempts(), "")
	t.number(2, "answered 500 and did nothing", s.Fates[refused], "")
	t.number(2, "hung past the deadline, then did it", s.Fates[hung], "")
	t.number(2, "did it, then dropped the answer", s.Fates[dropped], "")

	t.section("Receiver")
	t.number(1, copies, s.Receiver.copies(), "")
	t.number(2, "by webhook", s.CopiesVia[viaWebhook], "")
	t.number(2, "over Kafka", s.CopiesVia[viaKafka], "")
	t.number(2, "over NATS", s.CopiesVia[viaNATS], unless(s.CopiesVia[viaNATS] > 0, "JetStream drops what comes twice within two minutes"))

	fmt.Fprintln(to)
	t.row(0, "Reckoning", "expected", "found", "")
	for _, l := range s.Lines {
		t.row(1, l.What, thousands(l.Expected), thousands(l.Found), mark(l.Expected == l.Found))
		if l.Owed != 0 {
			t.row(2, l.Sum, money(l.Owed), money(l.Paid), mark(l.Owed == l.Paid && l.OffAccounts == 0))
		}
	}
	fmt.Fprintf(to, "\n  %s\n", s.verdict())
}

func (s summary) attempts() (n int) {
	for _, f := range s.Fates {
		n += f
	}
	return n
}

func (s summary) verdict() string {
	v := fmt.Sprintf("lost %s, doubled %s   (%.1f s)", thousands(s.lost()), thousands(s.doubled()), s.Took.Seconds())
	switch {
	case s.Naive && s.doubled() > 0:
		v += `

  This consumer commits and then acknowledges, as it should; but nothing in its transaction
  knew that the same payment had been booked before. So every copy, and everything that was
  in hand when the worker was killed, was booked again.`
	case s.lost()+s.doubled() == 0 && !s.right():
		v += "\n  and yet the sums do not agree."
	}
	return v
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return thousands(n) + " times"
	}
}

func share(part, of int) string { return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(max(of, 1))) }

func mark(ok bool) string {
	if ok {
		return "ok"
	}
	return "WRONG"
}

func unless(seen bool, remark string) string {
	if seen {
		return ""
	}
	return remark
}
