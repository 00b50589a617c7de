package storetest

import (
	"bytes"
	"time"

	"github.com/semel-dev/semel/store"
)

// keyRules are about which marks are equal.
func keyRules[TTx any]() []marksRule[TTx] {
	return []marksRule[TTx]{{
		"timed and plain keys",
		"A key with a time and a key without one are different keys, also with the same bytes.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			timed := s.timed(epoch, "m")
			plain := timed
			plain.Key.Timed = false
			s.beginAll([]store.Mark{timed, plain}, []store.Status{store.New, store.New}).rollback()
			s.begin(store.New, timed).commit()
			s.begin(store.New, plain).commit()
			s.beginAll([]store.Mark{plain, timed}, []store.Status{store.Seen, store.Seen}).rollback()
		},
	}, {
		"every byte counts",
		"Keys that differ in a single bit are different keys.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			for _, timed := range []bool{false, true} {
				var marks []store.Mark
				var want []store.Status
				for _, base := range [][]byte{bytes.Repeat([]byte{0}, 16), bytes.Repeat([]byte{0xff}, 16)} {
					for bit := -1; bit < 128; bit++ {
						m := store.Mark{Scope: s.scope, Time: epoch, Key: store.Key{ID: store.ID(base), Timed: timed}}
						if bit >= 0 {
							m.Key.ID[bit/8] ^= 1 << (bit % 8)
						}
						marks = append(marks, m)
						want = append(want, store.New)
					}
				}
				s.beginAll(marks, want).commit()
				for i := range want {
					want[i] = store.Seen
				}
				s.beginAll(marks, want).rollback()
			}
		},
	}, {
		"extreme times",
		"A message of any time can be marked: before 1970, in the year 9999, beyond what a key can hold, and without one.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			for _, at := range []time.Time{
				{},
				time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
				time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC),
				time.Unix(0, -1),
				time.Unix(0, 0),
				time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
				time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC),
			} {
				plain := s.mark("at", at)
				plain.Time = at
				timed := s.timed(at, "at")
				s.begin(store.New, timed).commit()
				s.begin(store.New, plain).commit()
				s.beginAll([]store.Mark{timed, plain}, []store.Status{store.Seen, store.Seen}).rollback()
			}
		},
	}, {
		"time is no identity",
		"A mark is its scope and its key: the time that comes with it tells no two marks apart.",
		func(e *exam, c *marksCase[TTx]) {
			s := c.open(e)
			for _, m := range []store.Mark{s.mark("m"), s.timed(epoch, "m")} {
				later := m
				later.Time = m.Time.Add(1000 * time.Hour)
				s.beginAll([]store.Mark{m, later}, []store.Status{store.New, store.Seen}).rollback()
				s.begin(store.New, m).commit()
				s.begin(store.Seen, later).rollback()
			}
		},
	}}
}
