package store

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Key is an identity in the form in which it is stored: 16 bytes, however long the
// identity itself is. A key that has an immutable time of its own begins with that
// time, so that rows arrive in the order of the index that holds them. At twenty
// million rows that is worth a factor of five.
//
// The form is a pure function of the identity. It never looks at a clock: a message
// that is delivered again next year must get the same key.
type Key struct {
	// ID are the bytes compared.
	ID ID
	// Timed says that the first 48 bits of ID are milliseconds since 1970.
	Timed bool
}

// DigestKey is the key of an identity that has no time in it: the first 16 bytes of its SHA-256.
func DigestKey(identity []byte) Key {
	sum := sha256.Sum256(identity)
	var k Key
	copy(k.ID[:], sum[:])
	return k
}

// OrderID is the form in which an ordering key is compared: see [Mark].Order.
func OrderID(order []byte) ID { return DigestKey(order).ID }

// TimedKey is the key of an identity that has an immutable time at: 48 bits of at
// in milliseconds, then a digest of the identity and of at in nanoseconds (UUID
// version 8, RFC 9562 section 5.8, so that it never equals a version 7 id that is
// stored as it is).
func TimedKey(at time.Time, identity []byte) Key {
	var room [160]byte // coordinates and ids fit, so that nothing is allocated
	text := binary.BigEndian.AppendUint64(room[:0], uint64(at.UnixNano()))
	sum := sha256.Sum256(append(text, identity...))
	k := Key{Timed: true}
	copy(k.ID[6:], sum[:])
	putMillis(&k.ID, at.UnixMilli())
	k.ID.stamp(8)
	return k
}

// Time returns the time that a timed key begins with, in milliseconds' precision.
func (k Key) Time() (time.Time, bool) {
	if !k.Timed {
		return time.Time{}, false
	}
	var b [8]byte
	copy(b[2:], k.ID[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:]))), true
}
