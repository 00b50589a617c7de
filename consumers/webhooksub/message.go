package webhooksub

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/semel-dev/semel/dedup"
)

const (
	broker   = "webhook"
	headerID = "webhook-id"
)

// private are headers that open doors. They have no place in a dead letter.
var private = []string{"authorization", "cookie", "proxy-authorization"}

// message turns a verified request into a message.
func (h *Handler) message(r *http.Request, id string, body []byte) dedup.Message {
	m := dedup.Message{
		Position: dedup.Position{Broker: broker, Log: h.source},
		Topic:    h.typeOf(r.Header, body),
		Headers:  []dedup.Header{{Key: headerID, Value: []byte(id)}},
		Body:     body,
		Attempt:  1,
	}
	// A header of that name that was not the one verified says what anybody likes.
	for name, values := range r.Header {
		name = strings.ToLower(name)
		if name == headerID || slices.Contains(private, name) {
			continue
		}
		for _, v := range values {
			m.Headers = append(m.Headers, dedup.Header{Key: name, Value: []byte(v)})
		}
	}
	slices.SortStableFunc(m.Headers, func(a, b dedup.Header) int { return strings.Compare(a.Key, b.Key) })
	return m
}

// typeOfJSON reads the member "type" of an object. What is no such thing has no type.
func typeOfJSON(_ http.Header, body []byte) string {
	// A map and not a struct, which would take "TYPE" as well.
	var members map[string]json.RawMessage
	var text string
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(members["type"], &text) != nil {
		return ""
	}
	return text
}
