package storetest

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/semel-dev/semel/store"
)

// letterRules are about what a letter holds.
func letterRules[TTx any]() []lettersRule[TTx] {
	// kept buries a letter and compares everything but what the store sets.
	kept := func(c *lettersCase[TTx], d store.DeadLetter) {
		c.Helper()
		got := c.buried(d)
		if got.ID == 0 || got.BuriedAt.IsZero() {
			c.failf("the store has set neither or one of ID %d and BuriedAt %s", got.ID, got.BuriedAt)
		}
		d.ID, d.BuriedAt = got.ID, got.BuriedAt
		c.same("the letter", got, d)
	}
	return []lettersRule[TTx]{{
		"every field",
		"A letter is read back with everything that was buried; its ID and the time of its burial are the store's.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			kept(c, c.letter("ordinary"))
			d := c.letter("what the store sets is not taken from the caller")
			d.ID, d.BuriedAt = 99, epoch
			if got := c.buried(d); got.ID == 99 || got.BuriedAt.Equal(epoch) {
				e.failf("ID %d and BuriedAt %s", got.ID, got.BuriedAt)
			}
			plain := c.letter("a key without a time")
			plain.Key.Timed = false
			kept(c, plain)
			kept(c, store.DeadLetter{Consumer: consumer, Key: store.DigestKey(nil)})
			for _, state := range []store.LetterState{store.Dead, store.Waiting, store.Quarantined, store.Conflicting} {
				d := c.letter("with a state and an ordering key")
				d.State, d.Order = state, []byte("\x00\xffcustomer")
				kept(c, d)
			}
			big := c.letter("the ends of the numbers")
			big.Partition, big.Offset, big.Attempts = math.MaxInt32, math.MaxInt64, math.MaxInt32
			big.Time = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)
			kept(c, big)
			small := c.letter("and the other ends")
			small.Offset, small.Time = -1, time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
			kept(c, small)
		},
	}, {
		"nil and empty",
		"A nil MessageKey or Body stays nil, an empty one stays empty.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			for _, key := range [][]byte{nil, {}} {
				for _, body := range [][]byte{nil, {}} {
					d := c.letter("m")
					d.MessageKey, d.Body = key, body
					kept(c, d)
				}
			}
		},
	}, {
		"any bytes",
		"Keys, headers, topic, log and body may hold any bytes, NUL and broken UTF-8 included.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			for _, odd := range []string{"\x00", "a\x00b", "\xff\xfe", "\xed\xa0\x80", "{}\\\",NULL", "\u2028'\"$1"} {
				d := c.letter("m")
				d.Topic, d.Log = odd, odd
				d.KeyText, d.MessageKey, d.Body = []byte(odd), []byte(odd), []byte(odd)
				d.Headers = []store.Header{{Key: odd, Value: []byte(odd)}, {Key: "", Value: nil}, {Key: odd, Value: []byte(odd + odd)}}
				kept(c, d)
			}
			d := c.letter("large")
			d.Body = []byte(strings.Repeat("\x00\xff", 1<<19))
			kept(c, d)
		},
	}, {
		"a reason of any bytes",
		"No reason stops a burial: what can be read of it is kept, whatever bytes stand around it.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			for _, reason := range []string{"", "\x00card declined", "card declined: \xff\xed\xa0\x80", "card declined\x00" + strings.Repeat("é", 10_000)} {
				d := c.letter("m")
				d.Reason = reason
				got := c.buried(d)
				if reason != "" && !strings.Contains(got.Reason, "card declined") {
					e.failf("%.64q became %.64q", reason, got.Reason)
				}
			}
		},
	}}
}

// listRules are about finding letters and losing them.
func listRules[TTx any]() []lettersRule[TTx] {
	// fill buries a to f, in turn for the two consumers.
	fill := func(c *lettersCase[TTx]) {
		c.Helper()
		for i, name := range strings.Split("abcdef", "") {
			d := c.letter(name)
			d.Consumer = []string{consumer, otherConsumer}[i%2]
			c.buried(d)
		}
	}
	return []lettersRule[TTx]{{
		"pages",
		"ListDead gives at most limit letters above an ID, oldest first, of one consumer or of all.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			c.listed("", 0, 10)
			fill(c)
			c.listed("", 0, 10, "a", "b", "c", "d", "e", "f")
			c.listed(consumer, 0, 10, "a", "c", "e")
			c.listed(otherConsumer, 0, 10, "b", "d", "f")
			c.listed("nobody", 0, 10)

			last := c.listed("", 0, 4, "a", "b", "c", "d")
			last = c.listed("", last, 4, "e", "f")
			c.listed("", last, 4)

			last = c.listed(otherConsumer, 0, 2, "b", "d")
			last = c.listed(otherConsumer, last, 2, "f")
			c.listed(otherConsumer, last, 2)
		},
	}, {
		"not found",
		"GetDead of an ID under which there is nothing is ErrNotFound.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			fill(c)
			all := c.list("", 0, 10)
			last := all[len(all)-1].ID
			c.discard(1, last)
			for _, id := range []int64{0, -1, last, last + 1, math.MaxInt64} {
				if got := c.tryGet(id); !errors.Is(got.err, store.ErrNotFound) {
					e.failf("GetDead(%d): letter %d, error %v", id, got.ID, got.err)
				}
			}
		},
	}, {
		"discard",
		"DiscardDead removes the letters that it is given and no others, and says how many were there.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			fill(c)
			all := c.list("", 0, 10)
			c.discard(0)
			c.discard(2, all[1].ID, all[4].ID, all[1].ID, math.MaxInt64)
			c.listed("", 0, 10, "a", "c", "d", "f")
			c.discard(0, all[1].ID, all[4].ID)
			last := all[5].ID
			c.discard(4, all[0].ID, all[2].ID, all[3].ID, last)
			c.listed("", 0, 10)
			if d := c.buried(c.letter("later")); d.ID <= last {
				e.failf("the letter after %d has the ID %d", last, d.ID)
			}
		},
	}, {
		"a discarded message is a duplicate",
		"A discarded letter leaves its mark: the message that is delivered again is Seen.",
		func(e *exam, c *lettersCase[TTx]) {
			c.begin(e)
			u := c.open(store.New, "m")
			c.bury(u, c.letter("m"))
			u.commit()
			c.discard(1, c.list("", 0, 10)[0].ID)
			c.open(store.Seen, "m").rollback()
		},
	}}
}
