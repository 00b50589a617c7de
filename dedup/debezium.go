package dedup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/semel-dev/semel/store"
)

// FromDebeziumOutbox takes the key from the header "id" that the outbox event router of
// Debezium writes: the id of the row in the outbox table, text or a number. It reads what
// the usual header converters of Kafka Connect make of it, and gives each the key that [KeyOf]
// gives the plain id:
//
//	SimpleHeaderConverter, StringConverter    8bb2…
//	JsonConverter, schemas.enable=false       "8bb2…"
//	JsonConverter, schemas.enable=true        {"schema":{…},"payload":"8bb2…"}
//
// So an event that a connector sends again after its converter was changed is still the same
// message. kafkapub and natspub of this library write the plain form; see
// [FromEventID] for events of its own.
//
// A message without the header, or with an empty one or null in it, has no key. What is
// none of these forms is an error: broken JSON, and bytes, as a converter with a schema registry
// writes them. For ids that are bytes, or that begin with a quote or a brace themselves, use [FromHeader].
func FromDebeziumOutbox() KeyFunc {
	return func(m Message) (Key, error) {
		k, err := outboxID(m)
		if err != nil {
			return Key{}, fmt.Errorf("header %q: %w", outboxHeader, err)
		}
		return k, nil
	}
}

const outboxHeader = "id"

func outboxID(m Message) (Key, error) {
	v, ok := m.Header(outboxHeader)
	if !ok {
		return Key{}, fmt.Errorf("%w: it is not there", ErrNoKey)
	}
	if !utf8.Valid(v) || bytes.IndexByte(v, 0) >= 0 {
		return Key{}, errors.New("the id is not text: set the connector's header.converter to one that writes text, such as SimpleHeaderConverter")
	}
	switch {
	case len(v) > 0 && (v[0] == '"' || v[0] == '{'):
		text, err := jsonID(v)
		if err != nil {
			return Key{}, err
		}
		return KeyOf(text)
	case string(v) == "null":
		return Key{}, fmt.Errorf("%w: the id is null", ErrNoKey)
	default:
		return KeyOf(v)
	}
}

// jsonID reads a JSON string, or the payload of a schema's envelope.
func jsonID(v []byte) ([]byte, error) {
	if !json.Valid(v) {
		return nil, fmt.Errorf("the id begins like JSON and is not JSON: %.64q", v)
	}
	if v[0] == '"' {
		return scalarText(v)
	}
	payload, err := lookup(v, []string{"payload"})
	if err != nil {
		// Not a missing key: there is an id, in a form that nobody expects.
		return nil, fmt.Errorf("the id is an object without a payload: %.64q", v)
	}
	return scalarText(payload)
}

// FromEventID takes the key from the id of an event that came out of an outbox of this
// library (store.Event.ID): one event has one key, whether kafkapub, natspub, webhookpub or a
// Debezium connector over the same table sent it, and however often.
//
// On Kafka and NATS that is the header "id", read as by [FromDebeziumOutbox]; on a webhook
// it is the id that the signature covers, webhook-id, and no other header. The id is a UUID.
// Something else there is an error: it is not from such an outbox, and of two senders who
// number their messages themselves, one would be taken for a copy of the other. Use
// webhooksub.ID for them.
func FromEventID() KeyFunc {
	fromLog, fromWebhook := FromDebeziumOutbox(), FromHeader("webhook-id")
	return func(m Message) (Key, error) {
		find := fromLog
		if m.Position.Broker == "webhook" {
			// A header "id" is not signed there. Whoever may repeat a request could choose it.
			find = fromWebhook
		}
		k, err := find(m)
		if err != nil {
			return Key{}, err
		}
		if _, err := store.ParseID(string(k.text)); err != nil {
			return Key{}, fmt.Errorf("the id %.64q is not that of an outbox event, which is a UUID", k.text)
		}
		return k, nil
	}
}
