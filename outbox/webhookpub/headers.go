package webhookpub

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/standardwebhooks"
	"github.com/semel-dev/semel/store"
)

// reserved are headers that belong to the connection, to the receiver's trust or to this
// package. In canonical form.
var reserved = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Keep-Alive": true,
	"Te": true, "Trailer": true, "Upgrade": true, "Expect": true, "Content-Encoding": true,
	"Proxy-Authorization": true, "Proxy-Connection": true, "Forwarded": true,
	"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true, "X-Real-Ip": true,
}

// Validate says whether the event could ever be sent. Whether its endpoint exists and may
// be called is asked only when it is sent.
func (p *Publisher) Validate(e store.Event) error {
	if err := p.validate(e); err != nil {
		return outbox.Permanent(fmt.Errorf("webhookpub: event %s: %w", e.ID, err))
	}
	return nil
}

func (p *Publisher) validate(e store.Event) error {
	if e.ID.IsZero() {
		return errors.New("it has no ID: without one no receiver can collapse its copies")
	}
	if err := standardwebhooks.CheckID(e.ID.String()); err != nil {
		return err
	}
	if e.Topic == "" {
		return errors.New("it has no Topic: that names the endpoint")
	}
	if len(e.Payload) > p.maxPayload {
		return fmt.Errorf("its payload has %d bytes and at most %d are sent: send the ids of what it is about", len(e.Payload), p.maxPayload)
	}
	for _, h := range e.Headers {
		if err := p.checkHeader(h); err != nil {
			return err
		}
	}
	return nil
}

func (p *Publisher) checkHeader(h store.Header) error {
	if !isToken(h.Key) {
		return fmt.Errorf("%.100q is not a name for an HTTP header", h.Key)
	}
	name := textproto.CanonicalMIMEHeaderKey(h.Key)
	if reserved[name] {
		return fmt.Errorf("the header %q is reserved", h.Key)
	}
	for _, n := range p.names {
		for _, own := range []string{n.ID, n.Timestamp, n.Signature} {
			if name == textproto.CanonicalMIMEHeaderKey(own) {
				return fmt.Errorf("the header %q is written by the publisher: give yours another name", h.Key)
			}
		}
	}
	for _, c := range h.Value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("the header %q has a control character in its value", h.Key)
		}
	}
	return nil
}

// header is the header of one attempt. Content-Type is JSON unless the event has its own.
func (p *Publisher) header(e store.Event, s standardwebhooks.Signed) http.Header {
	h := make(http.Header, len(e.Headers)+3*len(p.names)+2)
	for _, own := range e.Headers {
		h.Add(own.Key, string(own.Value))
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "User-Agent": "semel"} {
		if h.Get(name) == "" {
			h.Set(name, value)
		}
	}
	for _, n := range p.names {
		h.Set(n.ID, s.ID)
		h.Set(n.Timestamp, s.Timestamp)
		h.Set(n.Signature, s.Signature)
	}
	return h
}

// isToken tells a name that HTTP allows (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && !(c >= '0' && c <= '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
