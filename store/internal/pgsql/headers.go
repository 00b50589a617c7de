package pgsql

import (
	"encoding/binary"
	"errors"

	"github.com/semel-dev/semel/store"
)

// EncodeHeaders makes one value of headers, nil where there are none: per header the
// length of its name, the name, the length of its value plus one, and the value. Zero in
// the third place is a value that is nil.
func EncodeHeaders(headers []store.Header) []byte {
	if len(headers) == 0 {
		return nil
	}
	size := 0
	for _, h := range headers {
		size += len(h.Key) + len(h.Value) + 2*binary.MaxVarintLen32
	}
	b := make([]byte, 0, size)
	for _, h := range headers {
		b = binary.AppendUvarint(b, uint64(len(h.Key)))
		b = append(b, h.Key...)
		if h.Value == nil {
			b = append(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(h.Value))+1)
		b = append(b, h.Value...)
	}
	return b
}

var errHeaders = errors.New("the column headers holds something that this package did not write")

// DecodeHeaders reads what EncodeHeaders wrote. The values lie in b.
func DecodeHeaders(b []byte) ([]store.Header, error) {
	var headers []store.Header
	for len(b) > 0 {
		name, rest, ok := cutLength(b, 0)
		if !ok {
			return nil, errHeaders
		}
		h := store.Header{Key: string(name)}
		if h.Value, b, ok = cutLength(rest, 1); !ok {
			return nil, errHeaders
		}
		headers = append(headers, h)
	}
	return headers, nil
}

// cutLength takes a length, less the bias, and as many bytes. A length below the bias is nil.
func cutLength(b []byte, bias uint64) (value, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 {
		return nil, nil, false
	}
	b = b[used:]
	if n < bias {
		return nil, b, true
	}
	if n -= bias; n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}
