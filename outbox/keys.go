package outbox

import (
	"hash/maphash"

	"github.com/semel-dev/semel/store"
)

// A key is blocked while a row of it waits: whatever comes later waits behind. The relay
// keeps one small record per blocked key, under a hash, because there may be millions of
// them after a long outage. Keys that flow have none.
type key struct {
	// rows counts the waiting rows, held those of them that are held, hand those of them
	// that are in the relay's hands, starting those whose start is being noted.
	rows, held, hand, starting int
	mode                       keyMode
	// turn grows when a row of the key has failed: what was queued before is not sent.
	turn uint32
	// topic is that of its held rows, and first the number of its first row, while that one is
	// held and known.
	topic string
	first int64
	// listed: it stands in its slot's list of keys to be read.
	listed bool
}

// keyMode says how a blocked key's first row gets on.
type keyMode uint8

const (
	// keyHeld: with its topic, when that can be reached or has room. Where all of its rows are
	// held they go together; where others lie between them, only the first one goes.
	keyHeld keyMode = iota + 1
	// keyHeaded: by its own time, or a person's decision. It is retried or parked.
	keyHeaded
	// keyServed: the rows are read and sent in order, until none is left or one fails.
	keyServed
)

// keyID is a hash of 128 bits, so that two keys never share a record.
type keyID [2]uint64

var keySeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// idOf names the key within its slot. For a destination that is split by topic the order
// holds within a topic.
func idOf(split bool, e *store.Event) (id keyID) {
	for i := range id {
		var h maphash.Hash
		h.SetSeed(keySeeds[i])
		h.WriteString(e.Destination)
		h.WriteByte(0)
		if split {
			h.WriteString(e.Topic)
			h.WriteByte(0)
		}
		h.Write(e.Key)
		id[i] = h.Sum64()
	}
	return id
}

// wantedKey is a served key of which more is to be read.
type wantedKey struct {
	key                *key
	destination, topic string
	bytes              []byte
}

// blocked returns the key's record, nil while it flows.
func (s *slot) blocked(d *destination, e *store.Event) *key {
	if e.Key == nil || len(s.keys) == 0 {
		return nil
	}
	return s.keys[idOf(d.split, e)]
}

// block returns the key's record and makes one where it flowed; nil for a row without key.
func (s *slot) block(d *destination, e *store.Event) *key {
	if e.Key == nil {
		return nil
	}
	id := idOf(d.split, e)
	k := s.keys[id]
	if k == nil {
		k = &key{}
		s.keys[id] = k
	}
	return k
}

// review is called when a row of the key has left the relay's hands: the key flows again, or
// its next rows are read, or what its first row waits for brings them.
func (s *slot) review(d *destination, e *store.Event, k *key) {
	switch {
	case k.rows == 0:
		delete(s.keys, idOf(d.split, e))
	case k.hand > 0:
	case k.mode == keyServed, k.mode == keyHeld && k.first == 0 && k.held < k.rows:
		k.mode = keyServed
		s.serve(d, e, k)
	}
}

// serve lists the key to be read.
func (s *slot) serve(d *destination, e *store.Event, k *key) {
	if k.listed {
		return
	}
	k.listed = true
	w := wantedKey{key: k, destination: e.Destination, bytes: e.Key}
	if d.split {
		w.topic = e.Topic
	}
	s.wanted = append(s.wanted, w)
}

// maySend says whether a held row that has come with its topic is next of its key.
func (k *key) maySend(row *store.Row) bool {
	return k.mode == keyHeld && k.topic == row.Topic && (k.held == k.rows || k.first == row.Seq)
}
