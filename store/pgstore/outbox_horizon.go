package pgstore

import (
	"fmt"
	"strconv"
	"strings"
)

// horizon knows which transactions may still bring rows below the floors, so that such a
// row is found before any later row of its key is given out.
//
// A floor is the highest number read in a slot. Reading from there on is fast, because it
// does not walk over what was deleted, but numbers are handed out before commits: a
// transaction that is still open may hold a number below the floor. It commits, a rival that
// waited for its lock on the same key writes the key's next row, and that row lies above the
// floor. Waiting for all open transactions, as others do, would make any long one stop
// every relay. Instead each read, in the snapshot that it reads in, asks whether a
// transaction that was open before has ended since, and only then looks below the floors,
// no further down than where such a transaction can have begun.
//
// What that stands on: a transaction has its xid before its first row has a number (see
// [appendOne]), and both are handed out in growing order. Let z be the xid of a transaction of
// the relay itself, taken after a read whose highest number was n. A transaction with an
// xid above z has begun later, so its rows have numbers above n.
type horizon struct {
	// top is the highest number given out in any slot.
	top int64
	// z is the relay's own xid that was taken last before a read, and bound the highest number
	// given out before it: rows of transactions above z lie above bound.
	z     uint64
	bound int64
	// open are the transactions that were open in the last snapshot and could be named, each
	// with a number that its rows lie above.
	open map[uint64]int64
	// xmax is that of the last snapshot.
	xmax uint64
}

// arguments are the open transactions for the statement that reads.
func (h *horizon) arguments() (xids []string, lows []int64) {
	for xid, low := range h.open {
		xids = append(xids, strconv.FormatUint(xid, 10))
		lows = append(lows, low)
	}
	return xids, lows
}

// advance notes the snapshot in which rows up to top were read, and the relay's own xid in
// that transaction, zero where it had none. It reports false where the server has another
// past than the one known, after a failover: everything must be looked at again then.
func (h *horizon) advance(text string, own uint64, top int64) (bool, error) {
	snap, err := parseSnapshot(text)
	if err != nil {
		return false, err
	}
	if snap.xmax < h.xmax {
		*h = horizon{}
		return false, nil
	}
	// A snapshot names the open transactions below its xmax, which is not the next xid but
	// the one after the highest that has ended. Between it and the relay's own xid all are
	// open, and none of them is named.
	open := snap.open
	if own > snap.xmax && own-snap.xmax <= 5000 {
		for xid := snap.xmax; xid < own; xid++ {
			open = append(open, xid)
		}
	} else if own > snap.xmax {
		// Too many to list (savepoints use up xids too). Leaving z and bound where they
		// are means looking further down next time, and nothing worse.
		own = 0
	}
	now := make(map[uint64]int64, len(open))
	for _, xid := range open {
		if xid == own {
			continue
		}
		low, known := h.open[xid]
		if !known {
			low = h.bound
		}
		now[xid] = low
	}
	h.open, h.xmax = now, snap.xmax
	if own != 0 {
		h.z, h.bound = own, h.top
	}
	h.top = max(h.top, top)
	return true, nil
}

type snapshot struct {
	xmax uint64
	open []uint64
}

// parseSnapshot reads the text of a pg_snapshot: xmin:xmax:xip,xip,...
func parseSnapshot(text string) (snapshot, error) {
	var s snapshot
	_, rest, ok := strings.Cut(text, ":")
	high, list, ok2 := strings.Cut(rest, ":")
	var err error
	if s.xmax, err = strconv.ParseUint(high, 10, 64); !ok || !ok2 || err != nil {
		return s, fmt.Errorf("%q is no snapshot", text)
	}
	for list != "" {
		var one string
		one, list, _ = strings.Cut(list, ",")
		xid, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			return s, fmt.Errorf("%q is no snapshot", text)
		}
		s.open = append(s.open, xid)
	}
	return s, nil
}
