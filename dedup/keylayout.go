package dedup

import (
	"time"

	"github.com/semel-dev/semel/store"
)

// storedKey chooses the layout of an identity by its form alone. Only one text maps to
// bytes as they are (the canonical UUID version 7), so two different texts never
// share a key other than by a collision of SHA-256.
func storedKey(identity []byte) store.Key {
	switch len(identity) {
	case 36:
		if id, err := store.ParseID(string(identity)); err == nil && id[6]>>4 == 7 && id[8]>>6 == 2 {
			k := store.Key{ID: id, Timed: true}
			if id.String() == string(identity) {
				return k
			}
			at, _ := k.Time()
			return store.TimedKey(at, identity)
		}
	case 26:
		if at, ok := ulidTime(identity); ok {
			return store.TimedKey(at, identity)
		}
	}
	return store.DigestKey(identity)
}

// ulidTime reads the 48 bits of time of a ULID: 26 digits of Crockford's base 32, of which
// the first ten are the time and the first is at most 7. The canonical upper case only;
// another spelling is a digest, which costs it its order and nothing else.
func ulidTime(text []byte) (time.Time, bool) {
	var ms int64
	for i, c := range text {
		d := crockford[c]
		if d < 0 || i == 0 && d > 7 {
			return time.Time{}, false
		}
		if i < 10 {
			ms = ms<<5 | int64(d)
		}
	}
	return time.UnixMilli(ms), true
}

var crockford = func() (digits [256]int8) {
	for i := range digits {
		digits[i] = -1
	}
	for i, c := range []byte("0123456789ABCDEFGHJKMNPQRSTVWXYZ") {
		digits[c] = int8(i)
	}
	return digits
}()
