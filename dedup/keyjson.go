package dedup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// FromJSON takes the key from the member of a JSON body that the pointer names (RFC 6901,
// for example "/payment/id"). A string gives its characters and a number its literal as
// it was written; the string "7" and the number 7 are one key. Of several members of one
// name the last counts. A member that is absent,
// null or an empty string is [ErrNoKey]; anything else, a body that is not JSON and a
// string whose characters cannot be told (broken UTF-8, half of a surrogate pair) are
// errors, because repairing them could make one key of two. A text that is no pointer is an
// error of the guard's constructor.
func FromJSON(pointer string) KeyFunc {
	path, err := parsePointer(pointer)
	if err != nil {
		return broken(err)
	}
	return func(m Message) (Key, error) {
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
		return nil, fmt.Errorf("%q is not a JSON pointer to a member: it begins with a slash, as in \"/payment/id\"", pointer)
	}
	path := strings.Split(pointer[1:], "/")
	for i, name := range path {
		for rest := name; ; {
			_, after, found := strings.Cut(rest, "~")
			if !found {
				break
			}
			if after == "" || after[0] != '0' && after[0] != '1' {
				return nil, fmt.Errorf("JSON pointer %q: a tilde is written ~0 and a slash ~1", pointer)
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
		// The decoder would write U+FFFD for it, whichever half it is.
		if hasHalfPair(raw) {
			return nil, fmt.Errorf("the string has half of a surrogate pair")
		}
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
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

// hasHalfPair looks for an escaped half of a surrogate pair without its other half, in a
// string literal that is valid JSON.
func hasHalfPair(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // an escaped backslash or quote begins nothing
		if raw[i] != 'u' {
			continue
		}
		r := escaped(raw[i-1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if utf16.DecodeRune(r, escaped(raw[i+1:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escaped reads the \uXXXX at the beginning of b; -1 where there is none.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
