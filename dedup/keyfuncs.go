package dedup

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/semel-dev/semel/store"
)

// FromHeader takes the key from the header of that name, compared byte by byte. A message
// without it, or with an empty one, has no key; where several have the name, the first
// counts.
func FromHeader(name string) KeyFunc {
	return func(m Message) (Key, error) {
		v, ok := m.Header(name)
		if !ok {
			return Key{}, fmt.Errorf("%w: there is no header %q", ErrNoKey, name)
		}
		k, err := KeyOf(v)
		if err != nil {
			return Key{}, fmt.Errorf("header %q: %w", name, err)
		}
		return k, nil
	}
}

// FromCoordinates takes the message's place in its log as its key: broker, topic or stream,
// partition, offset or sequence, and the time that the log stored with it. It catches
// redelivery and nothing else: a producer's retry, a mirror or a republish has a place
// of its own. The time is part of it because a topic or stream that is deleted and made
// again uses its offsets again for other content.
func FromCoordinates() KeyFunc {
	return func(m Message) (Key, error) {
		p := m.Position
		if p.Log == "" || p.Time.IsZero() {
			return Key{}, fmt.Errorf("%w: a message from %q has no place in a log", ErrNoKey, p.Broker)
		}
		return KeyAt(p.Time, p.identity())
	}
}

// identity is injective: the two texts are preceded by their lengths.
func (p Position) identity() []byte {
	b := make([]byte, 0, len(p.Broker)+len(p.Log)+24)
	b = binary.AppendUvarint(b, uint64(len(p.Broker)))
	b = append(b, p.Broker...)
	b = binary.AppendUvarint(b, uint64(len(p.Log)))
	b = append(b, p.Log...)
	b = binary.AppendVarint(b, int64(p.Partition))
	return binary.AppendVarint(b, p.Offset)
}

// Composite joins several keys into one that is equal only when all are: a tenant's
// header and an invoice number, for instance. If one of them is missing, there is none.
// The time of a part does not order the whole.
func Composite(parts ...KeyFunc) KeyFunc {
	if err := misuseOfAny("Composite", parts); err != nil {
		return broken(err)
	}
	return func(m Message) (Key, error) {
		// The stored form of a part holds all that tells two keys apart, its time included,
		// in a fixed length, so the parts cannot run into each other. Timed belongs to it:
		// somebody may choose a UUID version 7 that has the bytes of another key's digest.
		identity := make([]byte, 0, len(parts)*(1+len(store.ID{})))
		var text []byte
		for i, part := range parts {
			k, err := part(m)
			if err == nil && len(k.text) == 0 {
				// Else all messages without it would be one.
				err = fmt.Errorf("%w: key function %d of Composite returned the zero Key", ErrNoKey, i+1)
			}
			if err != nil {
				return Key{}, err
			}
			stored := k.Stored()
			identity = append(identity, layout(stored))
			identity = append(identity, stored.ID[:]...)
			if i > 0 {
				text = append(text, '/')
			}
			text = append(text, k.text...)
		}
		return Key{text: text, form: store.DigestKey(identity)}, nil
	}
}

func layout(k store.Key) byte {
	if k.Timed {
		return 1
	}
	return 0
}

// FirstOf takes the first key that the message has. FirstOf(FromHeader("id"),
// FromCoordinates()) is the explicit way to say that messages without an id are told apart by their place. Only a missing
// key moves on to the next function; a bad one is an error.
func FirstOf(funcs ...KeyFunc) KeyFunc {
	if err := misuseOfAny("FirstOf", funcs); err != nil {
		return broken(err)
	}
	return func(m Message) (k Key, err error) {
		for _, f := range funcs {
			if k, err = f(m); err == nil || !errors.Is(err, ErrNoKey) {
				return k, err
			}
		}
		return Key{}, err
	}
}
