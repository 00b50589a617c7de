package sqlstore

import (
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/semel-dev/semel/store"
)

// Arrays travel as array literals of PostgreSQL, in text: that is what every driver can send. In a
// literal a backslash and a quote are escaped inside quotes, and only NULL without quotes is
// null.

// array writes a literal of n elements; write appends element i, unquoted where that is safe.
func array(n int, write func(b []byte, i int) []byte) string {
	b := []byte{'{'}
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = write(b, i)
	}
	return string(append(b, '}'))
}

func idArray(ids []store.ID) string {
	return array(len(ids), func(b []byte, i int) []byte { return append(b, ids[i].String()...) })
}

func intArray[T ~int16 | ~int32 | ~int64](numbers []T) string {
	return array(len(numbers), func(b []byte, i int) []byte { return strconv.AppendInt(b, int64(numbers[i]), 10) })
}

func textArray(texts []string) string {
	return array(len(texts), func(b []byte, i int) []byte { return appendQuoted(b, texts[i]) })
}

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// bytesArray keeps nil and empty apart.
func bytesArray(values [][]byte) string {
	return array(len(values), func(b []byte, i int) []byte { return appendBytes(b, values[i]) })
}

func appendBytes(b, value []byte) []byte {
	if value == nil {
		return append(b, "NULL"...)
	}
	b = append(b, `"\\x`...)
	b = hex.AppendEncode(b, value)
	return append(b, '"')
}

// appendTime writes a time so that no setting of the session changes its meaning. The years
// before the first one have no number zero and count backwards.
func appendTime(b []byte, at time.Time) []byte {
	at = at.UTC()
	year, era := at.Year(), ""
	if year <= 0 {
		year, era = 1-year, " BC"
	}
	return fmt.Appendf(b, `"%04d-%s%s"`, year, at.Format("01-02 15:04:05.999999+00"), era)
}

var errArray = errors.New("the server returned an array that cannot be read")

// readBytesArray reads what the server writes for a bytea[] without null elements, whichever
// bytea_output the session has.
func readBytesArray(literal string) ([][]byte, error) {
	inner, ok := strings.CutPrefix(literal, "{")
	if inner, ok2 := strings.CutSuffix(inner, "}"); ok && ok2 {
		values := [][]byte{}
		for inner != "" {
			element, rest, err := cutElement(inner)
			if err != nil {
				return nil, err
			}
			value, err := readBytes(element)
			if err != nil {
				return nil, err
			}
			values = append(values, value)
			if rest == "" {
				break
			}
			if inner = rest[1:]; rest[0] != ',' || inner == "" {
				return nil, errArray
			}
		}
		return values, nil
	}
	return nil, errArray
}

// cutElement takes one element and its escapes off a literal.
func cutElement(s string) (element, rest string, err error) {
	if s[0] != '"' {
		end := strings.IndexByte(s, ',')
		if end < 0 {
			end = len(s)
		}
		if element = s[:end]; element == "" || strings.EqualFold(element, "NULL") || strings.ContainsAny(element, `"\{}`) {
			return "", "", errArray
		}
		return element, s[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errArray
}

// readBytes reads a bytea in its hexadecimal form or in its older one, in which a backslash stands
// before another one or three octal digits.
func readBytes(s string) ([]byte, error) {
	if digits, ok := strings.CutPrefix(s, `\x`); ok {
		value, err := hex.DecodeString(digits)
		if err != nil {
			return nil, errArray
		}
		return value, nil
	}
	value := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			value = append(value, s[i])
		case i+1 < len(s) && s[i+1] == '\\':
			value = append(value, '\\')
			i++
		case i+3 < len(s):
			n, err := strconv.ParseUint(s[i+1:i+4], 8, 8)
			if err != nil {
				return nil, errArray
			}
			value = append(value, byte(n))
			i += 3
		default:
			return nil, errArray
		}
	}
	return value, nil
}

// The arguments that may be null. Drivers differ over a nil slice in an interface.

func nullBytes(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func nullID(id store.ID) any {
	if id.IsZero() {
		return nil
	}
	return id.String()
}

func nullTime(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at
}

// timeArray has null for the zero Time.
func timeArray(times []time.Time) string {
	return array(len(times), func(b []byte, i int) []byte {
		if times[i].IsZero() {
			return append(b, "NULL"...)
		}
		return appendTime(b, times[i])
	})
}

// readID reads a UUID that may be null.
func readID(text sql.NullString) (store.ID, error) {
	if !text.Valid {
		return store.ID{}, nil
	}
	return store.ParseID(text.String)
}
