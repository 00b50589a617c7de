package dedup

import (
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/store"
)

// MaxKeyLen is the longest identity taken, in bytes. Longer ones are refused, because
// an identity of that size is almost always a body in the wrong place.
const MaxKeyLen = 4096

// Key is the identity of a message within its consumer: opaque bytes, never trimmed, folded
// or repaired. Make one with [KeyOf] or [KeyAt].
type Key struct {
	text []byte
	at   time.Time // of an identity that has one
	// form is the stored form where it does not follow from the other two. Otherwise it is made
	// when it is asked for: a store that keeps positions never does.
	form store.Key
}

// Bytes returns the identity as it was given.
func (k Key) Bytes() []byte { return k.text }

// Stored returns the form in which a store keeps it.
func (k Key) Stored() store.Key {
	switch {
	case k.form != (store.Key{}) || len(k.text) == 0:
		return k.form
	case !k.at.IsZero():
		return store.TimedKey(k.at, k.text)
	default:
		return storedKey(k.text)
	}
}

// KeyFunc finds a message's key. It must be a pure function of the message: the same
// message delivered again, to another process, next year, must get the same key. An
// error sends the message to the dead letters, so a KeyFunc must not do I/O. Constructors
// call it once with an empty message.
type KeyFunc func(m Message) (Key, error)

// ErrNoKey: the message has no identity where the key function looked, or an empty one.
var ErrNoKey = errors.New("no key")

// ErrKeyTooLong: the identity is longer than [MaxKeyLen].
var ErrKeyTooLong = errors.New("key too long")

// KeyError is the error of a message whose key cannot be had. It is permanent.
type KeyError struct{ Err error }

func (e *KeyError) Error() string { return "dedup: key of the message: " + e.Err.Error() }
func (e *KeyError) Unwrap() error { return e.Err }

// KeyOf makes a key from an identity. A UUID version 7 in its canonical form (lower
// case, hyphens) is stored as it is; another form of it, or a ULID, is stored behind
// its own time; everything else is stored as a digest. An empty identity is [ErrNoKey],
// one of more than [MaxKeyLen] bytes is [ErrKeyTooLong].
func KeyOf(identity []byte) (Key, error) {
	if err := checkKeyLen(identity); err != nil {
		return Key{}, err
	}
	return Key{text: identity}, nil
}

// KeyAt makes a key from an identity that has a time of its own, which must be as
// immutable as the identity: what the log stored with the record, never the time of
// arrival. The time becomes part of the key.
func KeyAt(at time.Time, identity []byte) (Key, error) {
	if err := checkKeyLen(identity); err != nil {
		return Key{}, err
	}
	if at.IsZero() {
		return Key{}, fmt.Errorf("%w: the identity %.64q has a zero time", ErrNoKey, identity)
	}
	return Key{text: identity, at: at}, nil
}

func checkKeyLen(identity []byte) error {
	if len(identity) == 0 {
		return fmt.Errorf("%w: the identity is empty", ErrNoKey)
	}
	if len(identity) > MaxKeyLen {
		return fmt.Errorf("%w: %d bytes where %d are the most; take a shorter field or a digest of it",
			ErrKeyTooLong, len(identity), MaxKeyLen)
	}
	return nil
}
