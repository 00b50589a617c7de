package dedup

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/semel-dev/semel/store"
)

// FromCloudEvent takes the key from a CloudEvent: its source together with its id, which
// is what the specification (1.0) promises to be unique. One event has one key, whatever
// brought it and in whichever content mode:
//
//   - structured: the content type is application/cloudevents+json (or, as NATS allows,
//     application/cloudevents), and source and id are members of the body, read as by
//     [FromJSON]. Headers beside it are copies and do not count. A message without any content
//     type and without the headers below is structured, too, if its body is a JSON object
//     with a member specversion: that is how events travel over NATS without headers.
//   - binary: the headers ce_source and ce_id (Kafka; taken as they are), or ce-source and ce-id
//     (HTTP and NATS; their values are percent-decoded once). Names in any case.
//
// A message with neither, or where source or id is missing or empty, has no key. A batch
// of events, a format other than JSON, an attribute that is not UTF-8 or badly encoded,
// and headers that give one attribute two values are errors: no attempt makes such a message
// readable, and a guess could make one key of two. A handler takes one event: split batches
// before they get here.
//
// The event's time is no part of the key. An id that is a UUID version 7 or a ULID gives its
// own time to the key, which is then stored in that order and removed by that time, as with
// [KeyOf]. [Key.Bytes] is source and id with a space between.
//
// The source is what the sender says it is. Where several senders do not trust each other,
// give each a consumer of its own. A webhook's signature does not cover these headers: use
// webhooksub.ID there, or whoever may repeat a request may give it another identity.
func FromCloudEvent() KeyFunc {
	return func(m Message) (Key, error) {
		e, err := readCloudEvent(m)
		if err != nil {
			return Key{}, fmt.Errorf("CloudEvent: %w", err)
		}
		k, err := e.key()
		if err != nil {
			return Key{}, fmt.Errorf("CloudEvent: %w", err)
		}
		return k, nil
	}
}

// cloudEvent is the identity of one: nil is an attribute that is not there.
type cloudEvent struct{ source, id []byte }

func (e cloudEvent) key() (Key, error) {
	switch {
	case len(e.source) == 0:
		return Key{}, fmt.Errorf("%w: the event has no source", ErrNoKey)
	case len(e.id) == 0:
		return Key{}, fmt.Errorf("%w: the event has no id", ErrNoKey)
	case !utf8.Valid(e.source):
		return Key{}, errors.New("the source is not valid UTF-8")
	case !utf8.Valid(e.id):
		return Key{}, errors.New("the id is not valid UTF-8")
	}
	// Joined by a separator, the source "a b" with the id "c" would be the source "a" with the id
	// "b c".
	identity := make([]byte, 0, binary.MaxVarintLen64+len(e.source)+len(e.id))
	identity = binary.AppendUvarint(identity, uint64(len(e.source)))
	identity = append(identity, e.source...)
	identity = append(identity, e.id...)
	if err := checkKeyLen(identity); err != nil {
		return Key{}, err
	}
	// Not as KeyOf would choose it: that looks at the form of the whole, which is never that of
	// an id, and the time in the id would be lost.
	stored := store.DigestKey(identity)
	if at, ok := timeInID(e.id); ok {
		stored = store.TimedKey(at, identity)
	}
	return Key{text: bytes.Join([][]byte{e.source, e.id}, []byte(" ")), form: stored}, nil
}

// timeInID reads the time of a UUID version 7 or of a ULID: as old as the id, and as
// immutable.
func timeInID(id []byte) (time.Time, bool) {
	switch len(id) {
	case 36:
		if u, err := store.ParseID(string(id)); err == nil && u[6]>>4 == 7 && u[8]>>6 == 2 {
			return store.Key{ID: u, Timed: true}.Time()
		}
	case 26:
		return ulidTime(id)
	}
	return time.Time{}, false
}

func readCloudEvent(m Message) (cloudEvent, error) {
	contentType, declared := contentTypeOf(m.Headers)
	switch modeOf(contentType) {
	case structuredMode:
		members, err := membersOf(m.Body)
		if err != nil {
			return cloudEvent{}, err
		}
		return structuredEvent(members)
	case batchMode:
		return cloudEvent{}, fmt.Errorf("the message is a batch of events (%.64q): they have no identity in common; split it before it gets here", contentType)
	case foreignMode:
		return cloudEvent{}, fmt.Errorf("the event is in the format %.64q: only application/cloudevents+json can be read", contentType)
	}
	e, err := binaryEvent(m.Headers)
	if err != nil || declared || e.source != nil || e.id != nil {
		return e, err
	}
	// Nothing says what this is. If it is no event it has no key, and a body that is not JSON
	// is no error: it was never said to be.
	if members, err := membersOf(m.Body); err == nil && members["specversion"] != nil {
		return structuredEvent(members)
	}
	return cloudEvent{}, nil
}

func membersOf(body []byte) (members map[string]json.RawMessage, err error) {
	whole, err := lookup(body, nil)
	if err != nil {
		return nil, err
	}
	if whole[0] != '{' {
		return nil, errors.New("the body is not a JSON object")
	}
	err = json.Unmarshal(whole, &members)
	return members, err
}

// structuredEvent reads the JSON event format. Members other than these may hold what they
// like.
func structuredEvent(members map[string]json.RawMessage) (e cloudEvent, err error) {
	if e.source, err = attributeOf(members, "source"); err != nil {
		return cloudEvent{}, err
	}
	e.id, err = attributeOf(members, "id")
	return e, err
}

func attributeOf(members map[string]json.RawMessage, name string) ([]byte, error) {
	raw, ok := members[name]
	if !ok {
		return nil, nil
	}
	text, err := scalarText(raw)
	if err != nil {
		return nil, fmt.Errorf("member %q: %w", name, err)
	}
	return text, nil
}
