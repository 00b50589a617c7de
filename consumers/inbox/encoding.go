package inbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// A kept message begins with magic, which begins no text and no JSON, and the number of its form. A
// new form gets a new number and the old ones stay readable: what is kept may be older than the
// program that works on it.
const (
	magic   = 0x8e
	version = 1
)

// The form of version 1, after its number. Numbers are variable-length integers of encoding/binary;
// text is its length and its bytes; data that may be nil is zero for nil, else its length plus one
// and its bytes; a list likewise.
//
//	broker, log   text
//	partition     signed
//	offset        signed
//	time          seconds since 1970 signed, nanoseconds unsigned
//	topic         text
//	key           data
//	headers       list of text and data
//	body          data
func encode(m *dedup.Message) []byte {
	size := 64 + len(m.Position.Broker) + len(m.Position.Log) + len(m.Topic) + len(m.Key) + len(m.Body)
	for _, h := range m.Headers {
		size += 2*binary.MaxVarintLen32 + len(h.Key) + len(h.Value)
	}
	b := append(make([]byte, 0, size), magic, version)
	b = appendText(b, m.Position.Broker)
	b = appendText(b, m.Position.Log)
	b = binary.AppendVarint(b, int64(m.Position.Partition))
	b = binary.AppendVarint(b, m.Position.Offset)
	// Not the nanoseconds since 1970 in one number: the zero Time has none.
	b = binary.AppendVarint(b, m.Position.Time.Unix())
	b = binary.AppendUvarint(b, uint64(m.Position.Time.Nanosecond()))
	b = appendText(b, m.Topic)
	b = appendData(b, m.Key)
	if m.Headers == nil {
		b = append(b, 0)
	} else {
		b = binary.AppendUvarint(b, uint64(len(m.Headers))+1)
	}
	for _, h := range m.Headers {
		b = appendText(b, h.Key)
		b = appendData(b, h.Value)
	}
	return appendData(b, m.Body)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendData(b, data []byte) []byte {
	if data == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(data))+1), data...)
}

// ErrNewer is the error of a message that a newer version of this package has kept. It is
// not the message's fault: while a deployment is under way another process can read it.
var ErrNewer = errors.New("inbox: the message was kept by a newer version of this package")

// Message returns the message that an event keeps, as its consumer had it: position, topic, key,
// headers and body, with nil and empty apart, and the time in UTC. Attempt is 1; an epoch is not
// kept, because it means nothing outside of the consumer. The message shares no memory
// with the event.
//
// It is for whoever looks at parked events, see [store.OutboxAdmin]. The error is [ErrNewer] or
// says that the event is none that a [Writer] has written.
func Message(e store.Event) (dedup.Message, error) {
	// A handler may do with its message what it likes; the relay still needs the event.
	r := reader{b: bytes.Clone(e.Payload)}
	if len(r.b) > 1 && r.b[0] == magic && r.b[1] > version {
		return dedup.Message{}, fmt.Errorf("%w (form %d, this one knows up to %d)", ErrNewer, r.b[1], version)
	}
	if m := r.message(); r.err == nil {
		return m, nil
	}
	return dedup.Message{}, fmt.Errorf("inbox: event %s keeps no message: %w", e.ID, r.err)
}

// reader takes a kept message apart. After the first error it returns zero values.
type reader struct {
	b   []byte
	err error
}

var errShort = errors.New("it ends too early")

func (r *reader) message() (m dedup.Message) {
	if len(r.b) < 2 || r.b[0] != magic || r.b[1] != version {
		r.err = errors.New("its payload does not begin as a kept message does")
		return m
	}
	r.b = r.b[2:]
	m.Position.Broker = r.text()
	m.Position.Log = r.text()
	m.Position.Partition = int(r.signed())
	m.Position.Offset = r.signed()
	seconds, nanos := r.signed(), r.unsigned()
	if nanos >= uint64(time.Second) {
		r.fail(fmt.Errorf("a second of %d nanoseconds", nanos))
		return m
	}
	m.Position.Time = time.Unix(seconds, int64(nanos)).UTC()
	m.Topic = r.text()
	m.Key = r.data()
	m.Headers = r.headers()
	m.Body = r.data()
	m.Attempt = 1
	if len(r.b) > 0 {
		r.fail(fmt.Errorf("%d bytes follow its end", len(r.b)))
	}
	return m
}

func (r *reader) headers() []dedup.Header {
	n := r.unsigned()
	if n == 0 || r.err != nil {
		return nil
	}
	n--
	if n > uint64(len(r.b)/2) { // each has two bytes at least
		r.fail(errShort)
		return nil
	}
	headers := make([]dedup.Header, n)
	for i := range headers {
		headers[i] = dedup.Header{Key: r.text(), Value: r.data()}
	}
	return headers
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) unsigned() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail(errShort)
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) text() string { return string(r.take(r.unsigned())) }

func (r *reader) data() []byte {
	n := r.unsigned()
	if n == 0 {
		return nil
	}
	return r.take(n - 1)
}
