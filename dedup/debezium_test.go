package dedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/semel-dev/semel/consumers/webhooksub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox/kafkapub"
	"github.com/semel-dev/semel/outbox/natspub"
)

const envelope = `{"schema":{"type":"string","optional":false,"name":"io.debezium.data.Uuid","version":1},"payload":`

// A connector's converter is a matter of taste. A message that is delivered on both sides of a
// change of it is one message.
func TestADebeziumOutboxIDHasOneKeyInEveryForm(t *testing.T) {
	t.Parallel()
	f := dedup.FromDebeziumOutbox()
	for _, id := range []string{uuid7, uuid4, ulid, "42", "-7", "order 42/é", " ", `back\slash`, `a"b`} {
		inQuotes, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		want := keyOf(t, id)
		for form, value := range map[string]string{
			"SimpleHeaderConverter":              id,
			"JsonConverter, without schemas":     string(inQuotes),
			"JsonConverter, with schemas":        envelope + string(inQuotes) + "}",
			"JsonConverter, payload first":       `{"payload":` + string(inQuotes) + `,"schema":null}`,
			"JsonConverter, with room":           "{ \"schema\" : {}, \"payload\" :\n" + string(inQuotes) + " }\n",
			"JsonConverter, room behind quotes":  string(inQuotes) + "\n",
			"JsonConverter, in escaped letters":  `"` + escaped(id) + `"`,
			"JsonConverter, envelope of escapes": envelope + `"` + escaped(id) + `"}`,
		} {
			k, err := f(headers("other", "x", "id", value, "id", "second"))
			if err != nil || k.Stored() != want.Stored() || string(k.Bytes()) != id {
				t.Errorf("%s, %s: the key is %q, %v", form, value, k.Bytes(), err)
			}
		}
	}
	// A bigint is written as a number.
	wantKey(t, f, headers("id", `{"schema":{"type":"int64","optional":false},"payload":42}`), "42")
	wantKey(t, f, headers("id", `{"schema":{"type":"int64","optional":false},"payload":9007199254740993}`), "9007199254740993")
}

// escaped writes every letter as \uXXXX.
func escaped(s string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, r := range s {
		b.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			b.WriteByte(digits[r>>shift&15])
		}
	}
	return b.String()
}

func TestADebeziumMessageWithoutAnID(t *testing.T) {
	t.Parallel()
	f := dedup.FromDebeziumOutbox()
	for value, want := range map[string]string{
		"":                       `header "id": no key: the identity is empty`,
		"null":                   `header "id": no key: the id is null`,
		`""`:                     `header "id": no key: the identity is empty`,
		envelope + `""}`:         `header "id": no key: the identity is empty`,
		envelope + "null}":       `header "id": no key: the member is null`,
		`{"payload":null}`:       `header "id": no key: the member is null`,
		`{"payload": "" } `:      `header "id": no key: the identity is empty`,
		`{"a":1,"payload":null}`: `header "id": no key: the member is null`,
	} {
		wantNoKey(t, f, headers("id", value), want)
	}
	wantNoKey(t, f, headers("ID", "1", "Id", "2", "__id", "3"), `header "id": no key: it is not there`)
	wantKey(t, dedup.FirstOf(f, dedup.FromHeader("key")), headers("id", "null", "key", "7"), "7")
}

func TestADebeziumIDThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const bytes = "the id is not text: set the connector's header.converter to one that writes text, such as SimpleHeaderConverter"
	for value, want := range map[string]string{
		`"abc`:                   `the id begins like JSON and is not JSON: "\"abc"`,
		`"abc" "def"`:            `the id begins like JSON and is not JSON: "\"abc\" \"def\""`,
		`{abc}`:                  `the id begins like JSON and is not JSON: "{abc}"`,
		"{" + uuid7 + "}":        `the id begins like JSON and is not JSON: "{` + uuid7 + `}"`,
		`{"schema":{}}`:          `the id is an object without a payload: "{\"schema\":{}}"`,
		`{}`:                     `the id is an object without a payload: "{}"`,
		envelope + `{"id":"1"}}`: `a key is a string or a number, not {"id":"1"}`,
		envelope + `true}`:       `a key is a string or a number, not true`,
		`"\ud83d"`:               "the string has half of a surrogate pair",
		envelope + `"\ude00"}`:   "the string has half of a surrogate pair",
		// A schema registry's number, then Avro.
		"\x00\x00\x00\x00\x05\x48" + uuid7: bytes,
		"\xff\xfe":                         bytes,
		"a\x00b":                           bytes,
	} {
		k, err := dedup.FromDebeziumOutbox()(headers("id", value))
		if err == nil || errors.Is(err, dedup.ErrNoKey) || err.Error() != `header "id": `+want {
			t.Errorf("%q: the key is %q, %v\nwant the error %s", value, k.Bytes(), err, want)
		}
	}
	if _, err := dedup.FromDebeziumOutbox()(headers("id", envelope+`"`+strings.Repeat("a", 4097)+`"}`)); !errors.Is(err, dedup.ErrKeyTooLong) {
		t.Errorf("a long id: %v", err)
	}
}

func FuzzFromDebeziumOutbox(f *testing.F) {
	for _, pair := range [][2]string{
		// spellings
		{uuid7, strings.ToUpper(uuid7)}, {"42", "42.0"}, {"é", "e\u0301"}, {" a", "a"},
		// what JSON writes otherwise
		{`a"b`, `a\"b`}, {`\`, `\\`}, {"\u2028", "<&>"}, {"\n", "n"},
		// what JSON cannot write
		{"\xff", "\uFFFD"}, {"null", ""}, {`"x"`, "x"}, {`{"payload":"x"}`, "x"},
	} {
		f.Add(pair[0], pair[1])
	}
	key := dedup.FromDebeziumOutbox()
	f.Fuzz(func(t *testing.T, id, other string) {
		_, _ = key(headers("id", other)) // never a panic
		if id == "" || !utf8.ValidString(id) || strings.ContainsRune(id, 0) || len(id) > dedup.MaxKeyLen {
			return
		}
		inQuotes, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{string(inQuotes), envelope + string(inQuotes) + "}"} {
			k, err := key(headers("id", value))
			if err != nil || k.Stored() != keyOf(t, id).Stored() {
				t.Errorf("%s: the key is %q, %v", value, k.Bytes(), err)
			}
			if o, err := key(headers("id", other)); err == nil && (o.Stored() == k.Stored()) != (string(o.Bytes()) == id) {
				t.Errorf("%q and %q are stored as %v and %v", id, other, k.Stored(), o.Stored())
			}
		}
	})
}

// An event of our own, over each of the three roads, has one key: that of its id.
func TestAnEventHasOneKeyWhoeverSentIt(t *testing.T) {
	t.Parallel()
	for _, id := range []string{uuid7, uuid4} {
		at := func(broker string, m dedup.Message) dedup.Message {
			m.Position = dedup.Position{Broker: broker, Log: "payments", Time: time.Now()}
			return m
		}
		for road, m := range map[string]dedup.Message{
			"kafkapub":   at("kafka", headers(kafkapub.HeaderID, id, kafkapub.HeaderType, "t", "webhook-id", "of a request that led to this")),
			"natspub":    at("nats", headers("Nats-Msg-Id", id+"/nats", natspub.HeaderID, id)),
			"Debezium":   at("kafka", headers("id", envelope+`"`+id+`"}`)),
			"webhookpub": received(t, id),
		} {
			k, err := dedup.FromEventID()(m)
			if err != nil || k.Stored() != keyOf(t, id).Stored() {
				t.Errorf("%s: the key is %q, %v", road, k.Bytes(), err)
			}
		}
	}
}

// received is what webhooksub makes of a request whose signature covers the id, and to which
// somebody added a header "id" on the way.
func received(t *testing.T, id string) dedup.Message {
	t.Helper()
	p := new(capture)
	h, err := webhooksub.New("payments", verified(id), p)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Id", "0192f4a0-0000-7000-8000-000000000000")
	h.ServeHTTP(httptest.NewRecorder(), request)
	return p.m
}

type capture struct{ m dedup.Message }

func (c *capture) Process(_ context.Context, m dedup.Message) dedup.Result {
	c.m = m
	return dedup.Result{Outcome: dedup.Applied}
}

type verified string

func (v verified) Verify(http.Header, []byte, time.Time) (string, error) { return string(v), nil }

func TestAnIDThatIsNoEventsIsRefused(t *testing.T) {
	t.Parallel()
	f := dedup.FromEventID()
	webhook := func(m dedup.Message) dedup.Message { m.Position.Broker = "webhook"; return m }
	for what, m := range map[string]dedup.Message{
		`the id "42" is not that of an outbox event, which is a UUID`:    headers("id", "42"),
		`the id "msg_1" is not that of an outbox event, which is a UUID`: webhook(headers("webhook-id", "msg_1", "id", uuid7)),
	} {
		if k, err := f(m); err == nil || errors.Is(err, dedup.ErrNoKey) || err.Error() != what {
			t.Errorf("the key is %q, %v\nwant the error %s", k.Bytes(), err, what)
		}
	}
	wantNoKey(t, f, headers("webhook-id", uuid7), `header "id": no key: it is not there`)
	wantNoKey(t, f, webhook(headers("id", uuid7)), `no key: there is no header "webhook-id"`)
}
