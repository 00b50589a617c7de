package dedup_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/semel-dev/semel/dedup"
)

// Two identities that differ never share a stored key, whatever their form.
func FuzzKeyOf(f *testing.F) {
	for _, pair := range [][2]string{
		// spellings of one id
		{uuid7, strings.ToUpper(uuid7)}, {uuid7, uuid7[:35] + "E"}, {ulid, strings.ToLower(ulid)}, {uuid4, strings.ToUpper(uuid4)},
		// one character apart, in the time and behind it
		{uuid7, "1" + uuid7[1:]}, {uuid7, uuid7[:35] + "f"}, {ulid, ulid[:25] + "W"}, {ulid, "7" + ulid[1:]},
		// an id and its bytes, one identity and its beginning
		{uuid7, "\x01\x92\xf4\xa0\x5b\x7e\x7c\x3a\x9d\x2e\x3f\x4a\x5b\x6c\x7d\x8e"}, {"a", "a\x00"}, {"", " "}, {"é", "e\u0301"},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ka, errA := dedup.KeyOf(a)
		kb, errB := dedup.KeyOf(b)
		if (errA == nil) != (len(a) > 0 && len(a) <= dedup.MaxKeyLen) {
			t.Fatalf("%q: %v", a, errA)
		}
		if errA != nil || errB != nil {
			return
		}
		if (ka.Stored() == kb.Stored()) != bytes.Equal(a, b) {
			t.Errorf("%q and %q are stored as %v and %v", a, b, ka.Stored(), kb.Stored())
		}
	})
}

func FuzzFromJSON(f *testing.F) {
	for _, c := range [][3]string{
		// where
		{"/id", `{"id":"a"}`, `{"id":"b"}`}, {"/a/0/b", `{"a":[{"b":1}]}`, `{"a":[{"b":2}]}`}, {"/~0~1", `{"~/":1}`, `{"~\/":1}`}, {"/", `{"":1}`, `{"":"1"}`},
		// numbers, spellings
		{"/id", `{"id":1}`, `{"id":1.0}`}, {"/id", `{"id":"A"}`, `{"id":"\u0041"}`},
		// what a decoder repairs
		{"/id", `{"id":"\ud800"}`, `{"id":"\udfff"}`}, {"/id", `{"id":"\\ufffd\ud800"}`, `{"id":"\\ufffd\udbff"}`}, {"/id", "{\"id\":\"\xff\"}", "{\"id\":\"\xfe\"}"},
		{"/id", `{"id":"\ud83d\ude00"}`, `{"id":"😀"}`}, {"/id", `{"id":1,"id":2}`, `{"id":2}`},
		// broken
		{"/id", `{"id":`, ``}, {"id", `{}`, `{}`}, {"/~2", `{}`, `[]`}, {"/id", `{"id":{}}`, `{"id":[null]}`},
	} {
		f.Add(c[0], []byte(c[1]), []byte(c[2]))
	}
	f.Fuzz(func(t *testing.T, pointer string, a, b []byte) {
		key := dedup.FromJSON(pointer)
		ka, errA := key(dedup.Message{Body: a})
		kb, errB := key(dedup.Message{Body: b})
		if errA != nil {
			return
		}
		if want, ok := readJSON(pointer, a); !ok || want != string(ka.Bytes()) || !utf8.ValidString(want) {
			t.Errorf("%s at %q is %q, want %q", a, pointer, ka.Bytes(), want)
		}
		if errB == nil && (ka.Stored() == kb.Stored()) != bytes.Equal(ka.Bytes(), kb.Bytes()) {
			t.Errorf("%s and %s are stored as %v and %v", a, b, ka.Stored(), kb.Stored())
		}
	})
}

// readJSON looks up a pointer in another way.
func readJSON(pointer string, body []byte) (string, bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var here any
	if d.Decode(&here) != nil {
		return "", false
	}
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.NewReplacer("~0", "~", "~1", "/").Replace(name)
		switch v := here.(type) {
		case map[string]any:
			here = v[name]
		case []any:
			here = nil
			for i := range v {
				if n, _ := json.Marshal(i); string(n) == name {
					here = v[i]
				}
			}
		}
	}
	switch v := here.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

func FuzzComposite(f *testing.F) {
	for _, c := range [][4]string{
		// what runs into each other when it is merely joined
		{"a/b", "c", "a", "b/c"}, {"ab", "c", "a", "bc"}, {"a", "/b", "a/", "b"}, {"a", "b", "b", "a"}, {"a", "a", "a", "a"},
		// parts with layouts of their own
		{uuid7, ulid, ulid, uuid7}, {uuid7, "a", strings.ToUpper(uuid7), "a"}, {uuid4, uuid7, uuid7, uuid4},
	} {
		f.Add(c[0], c[1], c[2], c[3])
	}
	both := dedup.Composite(dedup.FromHeader("first"), dedup.FromHeader("second"))
	f.Fuzz(func(t *testing.T, a1, a2, b1, b2 string) {
		ka, errA := both(headers("first", a1, "second", a2))
		kb, errB := both(headers("first", b1, "second", b2))
		if errA != nil || errB != nil {
			return
		}
		if (ka.Stored() == kb.Stored()) != (a1 == b1 && a2 == b2) {
			t.Errorf("%q, %q and %q, %q are stored as %v and %v", a1, a2, b1, b2, ka.Stored(), kb.Stored())
		}
	})
}

func FuzzFromCoordinates(f *testing.F) {
	f.Add("kafka", "orders", 0, int64(42), int64(1709208000123456789), "kafka", "orders", 0, int64(42), int64(1709208000123456790)) // made again
	f.Add("kafka", "orders", 1, int64(42), int64(1), "kafkao", "rders", 1, int64(42), int64(1))                                     // joined
	f.Add("nats", "S", 0, int64(-1), int64(-1), "nats", "S", -1, int64(0), int64(-1))                                               // negative
	key := dedup.FromCoordinates()
	f.Fuzz(func(t *testing.T, broker1, log1 string, partition1 int, offset1, at1 int64, broker2, log2 string, partition2 int, offset2, at2 int64) {
		a := dedup.Position{Broker: broker1, Log: log1, Partition: partition1, Offset: offset1, Time: time.Unix(0, at1)}
		b := dedup.Position{Broker: broker2, Log: log2, Partition: partition2, Offset: offset2, Time: time.Unix(0, at2)}
		ka, errA := key(dedup.Message{Position: a})
		kb, errB := key(dedup.Message{Position: b})
		if errors.Join(errA, errB) != nil {
			return
		}
		if (ka.Stored() == kb.Stored()) != (a == b) {
			t.Errorf("%+v and %+v are stored as %v and %v", a, b, ka.Stored(), kb.Stored())
		}
	})
}
