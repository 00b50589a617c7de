package store

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// ID is a UUID in its 16 bytes. Events carry one; it stays the same on every
// attempt to deliver them.
type ID [16]byte

// NewID returns a random, time-ordered id (UUID version 7, RFC 9562 section 5.7).
func NewID() ID {
	var id ID
	// Read of crypto/rand never returns an error: it ends the program instead.
	_, _ = rand.Read(id[6:])
	putMillis(&id, time.Now().UnixMilli())
	id.stamp(7)
	return id
}

// ChildID derives an id from a parent and a name (UUID version 5, RFC 9562 section
// 5.5): the same parent and name always give the same id, in any process.
func ChildID(parent ID, name string) ID {
	h := sha1.New()
	h.Write(parent[:])
	h.Write([]byte(name))
	var id ID
	copy(id[:], h.Sum(nil))
	id.stamp(5)
	return id
}

// IsZero tells an id that was never set.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the usual lower-case form with hyphens.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[:8], id[:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:], id[10:])
	return string(b[:])
}

// ParseID reads the form that [ID.String] writes, in either case.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, fmt.Errorf("store: %q is not a UUID such as 0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e", s)
	}
	flat := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(flat)); err != nil {
		return ID{}, fmt.Errorf("store: %q is not a UUID: %w", s, err)
	}
	return id, nil
}

// putMillis writes the 48 bits of milliseconds that time-ordered ids begin with.
// Times before 1970 and after the year 10889 do not fit; they are clamped, which
// costs such ids their order and nothing else.
func putMillis(id *ID, ms int64) {
	ms = min(max(ms, 0), 1<<48-1)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(ms))
	copy(id[:6], b[2:])
}

func (id *ID) stamp(version byte) {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
}
