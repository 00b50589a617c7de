package dedup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// FromJSON takes the key from the member of a JSON body that the pointer names (RFC 6901,
// for example "/payment/id"). A string gives its characters and a number its literal as
// it was written; the string "7" and the number 7 are one key. A member that is absent,
// null or an empty string is [ErrNoKey]; anything else, a body that is not JSON and a
// string whose characters cannot be told (broken UTF-8, half of a surrogate pair) are
// errors, because repairing them could make one key of two.
func FromJSON(pointer string) KeyFunc {
	path, perr := parsePointer(pointer)
	return func(m Message) (Key, error) {
		if perr != nil {
			return Key{}, perr
		}
		raw, err := lookup(m.Body, path)
		if err != nil {
			return Key{}, fmt.Errorf("body at %q: %w", pointer, err)
		}
		text, err := scalarText(raw)
		if err != nil {
			return Key{}, fmt.Errorf("body at %q: %w", pointer, err)
		}
		k, err := KeyOf(text)
		if err != nil {
			return Key{}, fmt.Errorf("body at %q: %w", pointer, err)
		}
		return k, nil
	}
}

func parsePointer(pointer string) ([]string, error) {
	if !strings.HasPrefix(pointer, "/") {
		return nil, fmt.Errorf("dedup: %q is not a JSON pointer to a member: it begins with a slash, as in \"/payment/id\"", pointer)
	}
	path := strings.Split(pointer[1:], "/")
	for i, name := range path {
		for rest := name; ; {
			_, after, found := strings.Cut(rest, "~")
			if !found {
				break
			}
			if after == "" || after[0] != '0' && after[0] != '1' {
				return nil, fmt.Errorf("dedup: JSON pointer %q: a tilde is written ~0 and a slash ~1", pointer)
			}
			rest = after
		}
		path[i] = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
	}
	return path, nil
}

func lookup(body []byte, path []string) (json.RawMessage, error) {
	if !json.Valid(body) {
		return nil, fmt.Errorf("the body is not JSON")
	}
	here := json.RawMessage(bytes.TrimSpace(body))
	for _, name := range path {
		switch here[0] {
		case '{':
			var members map[string]json.RawMessage
			if err := json.Unmarshal(here, &members); err != nil {
				return nil, err
			}
			next, ok := members[name]
			if !ok {
				return nil, fmt.Errorf("%w: there is no member %q", ErrNoKey, name)
			}
			here = next
		case '[':
			var elements []json.RawMessage
			if err := json.Unmarshal(here, &elements); err != nil {
				return nil, err
			}
			i, err := strconv.ParseUint(name, 10, 31)
			if err != nil || name != strconv.FormatUint(i, 10) || int(i) >= len(elements) {
				return nil, fmt.Errorf("%w: there is no element %q in a list of %d", ErrNoKey, name, len(elements))
			}
			here = elements[i]
		default:
			return nil, fmt.Errorf("%w: %q is looked for in a value that has no members", ErrNoKey, name)
		}
		here = bytes.TrimSpace(here)
	}
	return here, nil
}

func scalarText(raw json.RawMessage) ([]byte, error) {
	switch c := raw[0]; {
	case c == '"':
		if !utf8.Valid(raw) {
			return nil, fmt.Errorf("the string is not valid UTF-8")
		}
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		// The decoder writes U+FFFD for half of a surrogate pair. One that was really
		// sent stands in the text, as itself or escaped.
		sent := strings.Count(string(raw), "\uFFFD") + strings.Count(strings.ToLower(string(raw)), `\ufffd`)
		if strings.Count(s, "\uFFFD") > sent {
			return nil, fmt.Errorf("the string has half of a surrogate pair")
		}
		return []byte(s), nil
	case c == '-' || c >= '0' && c <= '9':
		return raw, nil
	case c == 'n':
		return nil, fmt.Errorf("%w: the member is null", ErrNoKey)
	default:
		return nil, fmt.Errorf("a key is a string or a number, not %.32s", raw)
	}
}
