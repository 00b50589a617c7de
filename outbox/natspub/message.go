package natspub

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// Names of the headers that every message has: the event's ID, the same on every copy, and
// its type, where it has one. Names of NATS headers know their case.
const (
	HeaderID   = "id"
	HeaderType = "type"
)

// maxSubject keeps the line of the protocol that carries the subject far below the 4096
// bytes at which a server hangs up.
const maxSubject = 2048

// message turns an event into a message. The duplicate window of a stream knows ids alone,
// whatever the subject: with the destination in it, an event that goes to two
// destinations under one ID is not taken for a copy where both end in one stream.
func message(e store.Event) *nats.Msg {
	m := nats.NewMsg(e.Topic)
	m.Data = e.Payload
	for _, h := range e.Headers {
		m.Header.Add(h.Key, string(h.Value))
	}
	m.Header.Set(HeaderID, e.ID.String())
	if e.Type != "" {
		m.Header.Set(HeaderType, e.Type)
	}
	m.Header.Set(jetstream.MsgIDHeader, msgID(e))
	return m
}

func msgID(e store.Event) string { return e.ID.String() + "/" + e.Destination }

// Validate says whether NATS could ever take the event, as far as this side knows: the
// limit of size is that of the server the connection was last made to, and a stream may
// have a lower one.
func (p *Publisher) Validate(e store.Event) error {
	if err := validate(e, p.conn.MaxPayload()); err != nil {
		return outbox.Permanent(fmt.Errorf("natspub: event %s: %w", e.ID, err))
	}
	return nil
}

func validate(e store.Event, limit int64) error {
	if e.ID.IsZero() {
		return errors.New("it has no ID: without one no receiver can collapse its copies")
	}
	if err := checkSubject(e.Topic); err != nil {
		return err
	}
	if err := checkValue("destination", e.Destination); err != nil {
		return err
	}
	if err := checkValue("type", e.Type); err != nil {
		return err
	}
	size := len(e.Payload)
	for _, h := range e.Headers {
		if err := checkHeader(h); err != nil {
			return err
		}
		size += len(h.Key) + len(h.Value)
	}
	// Zero before the first connection.
	if limit > 0 && int64(size) > limit {
		return fmt.Errorf("it has %d bytes: the server takes at most %d", size, limit)
	}
	return nil
}

// checkSubject refuses what a server would refuse, hang up on, or obey. A wildcard would
// be stored as if it were a word, where no consumer looks for it.
func checkSubject(subject string) error {
	if subject == "" || len(subject) > maxSubject {
		return fmt.Errorf("the subject has %d bytes: 1 to %d are allowed", len(subject), maxSubject)
	}
	for i := range len(subject) {
		if c := subject[i]; c <= ' ' || c == 0x7f {
			return fmt.Errorf("the subject %.100q has a space or a control character", subject)
		}
	}
	tokens := strings.Split(subject, ".")
	for _, token := range tokens {
		switch token {
		case "":
			return fmt.Errorf("the subject %.100q has an empty part: it neither begins nor ends with a full stop, nor has two in a row", subject)
		case "*", ">":
			return fmt.Errorf("the subject %.100q has a wildcard: those are for subscribers", subject)
		}
	}
	switch tokens[0] {
	case "$JS", "$SYS", "_INBOX":
		return fmt.Errorf("the subject %.100q belongs to the server: an event there would be taken for a command", subject)
	}
	return nil
}

func checkHeader(h store.Header) error {
	if h.Key == HeaderID || h.Key == HeaderType {
		return fmt.Errorf("the header %q is written by the publisher: give yours another name", h.Key)
	}
	// Some of these make the server do something, up to removing what the stream holds.
	if len(h.Key) >= 5 && strings.EqualFold(h.Key[:5], "Nats-") {
		return fmt.Errorf("the header %q is an instruction to the server: names that begin with Nats- are refused", h.Key)
	}
	if h.Key == "" {
		return errors.New("a header has no name")
	}
	for i := range len(h.Key) {
		if c := h.Key[i]; c <= ' ' || c > '~' || c == ':' {
			return fmt.Errorf("the header name %.100q has a character that NATS cannot carry", h.Key)
		}
	}
	return checkValue("header "+h.Key, string(h.Value))
}

// checkValue refuses what nats.go would change on the way without a word.
func checkValue(what, v string) error {
	if strings.ContainsAny(v, "\r\n") || strings.Trim(v, " \t") != v {
		return fmt.Errorf("the %s has a line break, or a space at its end: NATS headers cannot carry that", what)
	}
	return nil
}
