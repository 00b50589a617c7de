package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/semel-dev/semel/store"
)

// lettersCase is the place of one case.
type lettersCase[TTx any] struct {
	DeadLettersPlace[TTx]
	*exam
	marks *marksStore[TTx]
	// count of the letters that had a transaction of their own.
	count int
}

const consumer, otherConsumer = "billing", "shipping"

// begin takes the case in hand and interns the consumers, as their guards would.
func (c *lettersCase[TTx]) begin(e *exam) {
	e.Helper()
	c.exam = e
	c.marks = &marksStore[TTx]{exam: e, Marks: c.Marks}
	c.marks.marksCase = &marksCase[TTx]{MarksPlace[TTx]{Effect: c.Effect, Effects: c.Effects, AwaitBlocked: c.AwaitBlocked}}
	c.marks.scopeOf(otherConsumer)
	c.marks.scope = c.marks.scopeOf(consumer)
}

func (c *lettersCase[TTx]) open(want store.Status, name string) *marksUnit[TTx] {
	c.Helper()
	return c.marks.begin(want, c.marks.mark(name))
}

// letter is an ordinary one whose topic is its name.
func (c *lettersCase[TTx]) letter(name string) store.DeadLetter {
	m := c.marks.timed(epoch, name)
	return store.DeadLetter{
		Consumer: consumer, Key: m.Key, KeyText: []byte(name),
		Broker: "kafka", Topic: name, Log: "payments", Partition: 7, Offset: 1 << 40, Time: epoch,
		MessageKey: []byte("customer"),
		Headers:    []store.Header{{Key: "id", Value: []byte("1")}, {Key: "id", Value: []byte("2")}, {Key: "", Value: []byte{}}},
		Body:       []byte(`{"amount":1}`),
		Reason:     "card declined", Attempts: 10,
	}
}

func (c *lettersCase[TTx]) bury(u *marksUnit[TTx], d store.DeadLetter) {
	c.Helper()
	tx := u.Tx()
	// What the case compares with later is not what the store gets into its hands.
	d.Headers = slices.Clone(d.Headers)
	c.check("BuryTx", within(c.exam, "BuryTx", func(ctx context.Context) error { return c.Burier.BuryTx(ctx, tx, d) }))
}

// buried buries one letter in a transaction of its own and reads it back.
func (c *lettersCase[TTx]) buried(d store.DeadLetter) store.DeadLetter {
	c.Helper()
	c.count++
	u := c.open(store.New, fmt.Sprintf("message %d", c.count))
	c.bury(u, d)
	u.commit()
	all := c.list("", 0, 1000)
	if len(all) == 0 {
		c.failf("the letter is not there after the commit")
	}
	listed := all[len(all)-1]
	got := c.get(listed.ID)
	c.same("the letter read by its ID", got.DeadLetter, listed)
	return listed
}

type letters struct {
	all []store.DeadLetter
	err error
}

func (c *lettersCase[TTx]) list(consumer string, after int64, limit int) []store.DeadLetter {
	c.Helper()
	return c.find(store.LetterFilter{Consumer: consumer}, after, limit)
}

func (c *lettersCase[TTx]) find(f store.LetterFilter, after int64, limit int) []store.DeadLetter {
	c.Helper()
	l := within(c.exam, "ListDead", func(ctx context.Context) letters {
		all, err := c.Letters.ListDead(ctx, f, after, limit)
		return letters{all, err}
	})
	c.check("ListDead", l.err)
	return l.all
}

// listed checks the topics of a list and returns the last ID, for the next page.
func (c *lettersCase[TTx]) listed(consumer string, after int64, limit int, want ...string) int64 {
	c.Helper()
	var got []string
	last := after
	for _, d := range c.list(consumer, after, limit) {
		got = append(got, d.Topic)
		if d.ID <= last {
			c.failf("ID %d comes after %d", d.ID, last)
		}
		last = d.ID
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		c.failf("ListDead(%q, %d, %d) is %q where %q is right", consumer, after, limit, got, want)
	}
	return last
}

type letter struct {
	store.DeadLetter
	err error
}

func (c *lettersCase[TTx]) tryGet(id int64) letter {
	c.Helper()
	return within(c.exam, "GetDead", func(ctx context.Context) letter {
		d, err := c.Letters.GetDead(ctx, id)
		return letter{d, err}
	})
}

func (c *lettersCase[TTx]) get(id int64) letter {
	c.Helper()
	got := c.tryGet(id)
	c.check(fmt.Sprintf("GetDead(%d)", id), got.err)
	return got
}

// discard discards and compares how many letters were there.
func (c *lettersCase[TTx]) discard(want int, ids ...int64) {
	c.Helper()
	type answer struct {
		n   int
		err error
	}
	a := within(c.exam, "DiscardDead", func(ctx context.Context) answer {
		n, err := c.Letters.DiscardDead(ctx, ids...)
		return answer{n, err}
	})
	c.check("DiscardDead", a.err)
	if a.n != want {
		c.failf("DiscardDead says %d where %d letters were there", a.n, want)
	}
}

// same compares all that a store must give back. Times are compared to the microsecond,
// which is what databases keep; header values may turn from nil to empty.
func (c *lettersCase[TTx]) same(what string, got, want store.DeadLetter) {
	c.Helper()
	differ := func(field string, g, w any) {
		c.Helper()
		c.failf("%s: %s is %#v where %#v was buried", what, field, g, w)
	}
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"ID", got.ID, want.ID}, {"Consumer", got.Consumer, want.Consumer}, {"Key", got.Key, want.Key},
		{"KeyText", string(got.KeyText), string(want.KeyText)}, {"State", got.State, want.State}, {"Broker", got.Broker, want.Broker},
		{"Topic", got.Topic, want.Topic}, {"Log", got.Log, want.Log}, {"Partition", got.Partition, want.Partition},
		{"Offset", got.Offset, want.Offset}, {"Time", micros(got.Time), micros(want.Time)},
		{"Reason", got.Reason, want.Reason}, {"Attempts", got.Attempts, want.Attempts},
		{"BuriedAt", micros(got.BuriedAt), micros(want.BuriedAt)},
		{"number of headers", len(got.Headers), len(want.Headers)},
	} {
		if f.got != f.want {
			differ(f.name, f.got, f.want)
		}
	}
	for _, f := range []struct {
		name      string
		got, want []byte
	}{{"Order", got.Order, want.Order}, {"MessageKey", got.MessageKey, want.MessageKey}, {"Body", got.Body, want.Body}} {
		if !bytes.Equal(f.got, f.want) || (f.got == nil) != (f.want == nil) {
			differ(f.name, f.got, f.want)
		}
	}
	for i := range want.Headers {
		if g, w := got.Headers[i], want.Headers[i]; g.Key != w.Key || !bytes.Equal(g.Value, w.Value) {
			differ(fmt.Sprintf("header %d", i+1), g, w)
		}
	}
}

func micros(t time.Time) string {
	return t.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}
