package dedup_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/semel-dev/semel/dedup"
)

// No two events share a stored key, and each has the same one in all modes.
func FuzzFromCloudEvent(f *testing.F) {
	for _, c := range [][4]string{
		// what runs into each other when it is merely joined
		{"a b", "c", "a", "b c"}, {"ab", "c", "a", "bc"}, {"a", "b", "b", "a"}, {"a ", "b", "a", " b"}, {"", "a", "a", ""},
		// ids with a time
		{"s", uuid7, "s", strings.ToUpper(uuid7)}, {"s", ulid, "s", strings.ToLower(ulid)}, {"s", uuid7, "t", uuid7}, {uuid7, "s", "s", uuid7},
		// what is encoded on some ways
		{"s", "50%", "s", "50%25"}, {"s", `"a"`, "s", "a"}, {"s", `\"`, "s", `"`}, {"é", "a b", "e\u0301", "a%20b"}, {"s", "\u2028<&>", "s", "\x00"},
		// what cannot be
		{"s", "\xff", "s", "\uFFFD"}, {strings.Repeat("s", 127), "i", strings.Repeat("s", 128), "i"}, {"s", strings.Repeat("i", 4095), "s", strings.Repeat("i", 4094)},
	} {
		f.Add(c[0], c[1], c[2], c[3])
	}
	f.Fuzz(func(t *testing.T, source1, id1, source2, id2 string) {
		a, okA := keyInAllModes(t, source1, id1)
		b, okB := keyInAllModes(t, source2, id2)
		if okA && okB && (a.Stored() == b.Stored()) != (source1 == source2 && id1 == id2) {
			t.Errorf("%q of %q and %q of %q are stored as %v and %v", id1, source1, id2, source2, a.Stored(), b.Stored())
		}
	})
}

func keyInAllModes(t *testing.T, source, id string) (dedup.Key, bool) {
	t.Helper()
	modes := map[string]dedup.Message{
		"HTTP":         headers("ce-source", percentEncoded(source), "ce-id", percentEncoded(id)),
		"HTTP, quoted": headers("ce-source", quoted(source), "ce-id", quoted(id)),
	}
	if utf8.ValidString(source) && utf8.ValidString(id) {
		body, err := json.Marshal(map[string]string{"specversion": "1.0", "source": source, "id": id})
		if err != nil {
			t.Fatal(err)
		}
		modes["structured"], modes["undeclared"] = structured(structuredType, string(body)), dedup.Message{Body: body}
	}
	want, errWant := dedup.FromCloudEvent()(headers("ce_source", source, "ce_id", id))
	for mode, m := range modes {
		k, err := dedup.FromCloudEvent()(m)
		if k.Stored() != want.Stored() || (err == nil) != (errWant == nil) || errors.Is(err, dedup.ErrNoKey) != errors.Is(errWant, dedup.ErrNoKey) {
			t.Errorf("%s: %q of %q has the key %v, %v, and over Kafka %v, %v", mode, id, source, k.Stored(), err, want.Stored(), errWant)
		}
	}
	if readable := source != "" && id != "" && utf8.ValidString(source) && utf8.ValidString(id); readable && len(source)+len(id) < 4090 && errWant != nil || !readable && errWant == nil {
		t.Errorf("%q of %q: %v", id, source, errWant)
	}
	return want, errWant == nil
}

func percentEncoded(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '"' || c == '%' || c > '~' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// quoted is how former versions of the binding let a value be written.
func quoted(s string) string {
	return `"` + strings.NewReplacer("%", "%25", `"`, `\"`, `\`, `\\`).Replace(s) + `"`
}

// Whatever a message is made of, it has the identity that another reader finds in it, or none.
func FuzzCloudEventOfAnyMessage(f *testing.F) {
	// declared
	f.Add(structuredType, "", "", []byte(`{"source":"s","id":"1"}`))
	f.Add("application/cloudevents", "ce_id", "2", []byte(`{"id":"1","id":3,"source":"\ud83d\ude00"}`))
	f.Add("application/cloudevents-batch+json", "", "", []byte(`[{}]`))
	// undeclared
	f.Add("", "", "", []byte(`{"specversion":"1.0","source":"s","id":"1"}`))
	f.Add("text/plain", "CE-ID", `"%41\"`, []byte(`{"specversion":null}`))
	// broken
	f.Add(structuredType, "ce-", "%", []byte(`{"source":{},"id":"\ud83d"}`))
	f.Fuzz(func(t *testing.T, contentType, name, value string, body []byte) {
		m := headers("ce_source", "s", name, value)
		if contentType != "" {
			m.Headers = append(m.Headers, dedup.Header{Key: "content-type", Value: []byte(contentType)})
		}
		m.Body = body
		if name == "" {
			m.Headers = m.Headers[2:]
		}
		k, err := dedup.FromCloudEvent()(m)
		if err != nil {
			if len(k.Bytes()) != 0 {
				t.Errorf("the key %q beside the error %v", k.Bytes(), err)
			}
			return
		}
		if !utf8.Valid(k.Bytes()) {
			t.Errorf("the key is %q", k.Bytes())
		}
		if contentType != structuredType {
			return
		}
		source, okS := readJSON("/source", body)
		id, okI := readJSON("/id", body)
		if !okS || !okI || string(k.Bytes()) != source+" "+id {
			t.Errorf("%s has the key %q", body, k.Bytes())
		}
	})
}
