package dedup

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// contentMode is how a message carries an event, as far as its content type says.
type contentMode int

const (
	binaryMode     contentMode = iota + 1 // or none at all
	structuredMode                        // in JSON
	batchMode
	foreignMode // structured in another format
)

// contentTypeOf finds the content type; its name is written as each client likes.
func contentTypeOf(headers []Header) (value string, declared bool) {
	for _, h := range headers {
		if strings.EqualFold(h.Key, "content-type") {
			return string(h.Value), true
		}
	}
	return "", false
}

func modeOf(contentType string) contentMode {
	media, _, _ := strings.Cut(contentType, ";")
	kind, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(media)), "application/cloudevents")
	switch {
	case !ok:
		return binaryMode
	case kind == "" || kind == "+json":
		return structuredMode
	case strings.HasPrefix(kind, "-batch"):
		return batchMode
	default:
		return foreignMode
	}
}

// binaryEvent collects source and id from the headers of the binary mode. The prefix says by
// which binding a header was written, and so how its value is to be read; the broker does
// not, since a bridge may have copied it from elsewhere.
func binaryEvent(headers []Header) (e cloudEvent, err error) {
	for _, h := range headers {
		if len(h.Key) < 3 || !strings.EqualFold(h.Key[:2], "ce") || h.Key[2] != '_' && h.Key[2] != '-' {
			continue
		}
		var attribute *[]byte
		switch name := h.Key[3:]; {
		case strings.EqualFold(name, "source"):
			attribute = &e.source
		case strings.EqualFold(name, "id"):
			attribute = &e.id
		default:
			continue
		}
		value := h.Value
		if h.Key[2] == '-' {
			if value, err = headerValue(h.Value); err != nil {
				return cloudEvent{}, fmt.Errorf("header %q: %w", h.Key, err)
			}
		}
		// Which of two is right, nobody can tell.
		if *attribute != nil && !bytes.Equal(*attribute, value) {
			return cloudEvent{}, fmt.Errorf("header %q: the event has another %s, too: %.64q and %.64q", h.Key, strings.ToLower(h.Key[3:]), value, *attribute)
		}
		*attribute = append([]byte{}, value...)
	}
	return e, nil
}

// headerValue reads the value of a header as the bindings for HTTP and NATS write it: in
// former versions perhaps a quoted string, then percent-encoded, once. A percent sign that
// encodes nothing is refused, since it shows that the sender does not encode: of its other ids,
// those that look encoded would be read as something they are not.
func headerValue(v []byte) ([]byte, error) {
	v, err := unquoted(v)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, 0, len(v))
	for {
		before, after, found := bytes.Cut(v, []byte("%"))
		plain = append(plain, before...)
		if !found {
			return plain, nil
		}
		var c [1]byte
		if len(after) < 2 {
			return nil, errNotEncoded
		}
		if _, err := hex.Decode(c[:], after[:2]); err != nil {
			return nil, errNotEncoded
		}
		plain = append(plain, c[0])
		v = after[2:]
	}
}

var errNotEncoded = errors.New("a percent sign in the value encodes nothing: the sign itself is written %25")

// unquoted reads a value that is a quoted string as a whole (RFC 9110, section 5.6.4). A
// quote further inside stands for itself.
func unquoted(v []byte) ([]byte, error) {
	if len(v) == 0 || v[0] != '"' {
		return v, nil
	}
	plain := make([]byte, 0, len(v))
	for i := 1; i < len(v); i++ {
		switch {
		case v[i] == '"' && i == len(v)-1:
			return plain, nil
		case v[i] == '"':
			return nil, errors.New("something follows a quoted value")
		case v[i] == '\\' && i < len(v)-1:
			i++
		}
		plain = append(plain, v[i])
	}
	return nil, errors.New("a quoted value has no end")
}
