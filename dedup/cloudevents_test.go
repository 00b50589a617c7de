package dedup_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

const structuredType = "application/cloudevents+json"

func structured(contentType, body string) dedup.Message {
	m := headers("content-type", contentType)
	m.Body = []byte(body)
	return m
}

func storedKeyOf(t *testing.T, f dedup.KeyFunc, m dedup.Message) store.Key {
	t.Helper()
	k, err := f(m)
	if err != nil {
		t.Fatalf("%+v: %v", m, err)
	}
	return k.Stored()
}

// The bindings differ in names, in spelling and in where things are. The event is the same.
func TestACloudEventHasOneKeyInEveryContentMode(t *testing.T) {
	t.Parallel()
	f := dedup.FromCloudEvent()
	const source, id = "/shop/é", `50% "off"`
	const body = `{"specversion":"1.0","type":"t","source":"/shop/é","id":"50% \"off\"","time":"2024-02-29T12:00:00Z","data":{"id":"other"}}`
	with := func(m dedup.Message, body string) dedup.Message { m.Body = []byte(body); return m }
	want := storedKeyOf(t, f, headers("ce_source", source, "ce_id", id))
	for what, m := range map[string]dedup.Message{
		"Kafka, binary":                    with(headers("ce_specversion", "1.0", "ce_id", id, "ce_source", source, "ce_time", "2024-02-29T12:00:00Z", "content-type", "application/json"), "{}"),
		"Kafka, binary, a tombstone":       headers("ce_id", id, "ce_source", source),
		"Kafka, binary, another time":      headers("ce_id", id, "ce_source", source, "ce_time", "2031-01-01T00:00:00Z"),
		"Kafka, binary, a header twice":    headers("ce_id", id, "ce_source", source, "ce_id", id),
		"NATS, binary":                     headers("ce-id", "50%25%20%22off%22", "ce-source", "/shop/%C3%A9"),
		"NATS, binary, canonical names":    headers("Ce-Id", "50%25%20%22off%22", "Ce-Source", "/shop/%c3%a9"),
		"HTTP, binary, encoded throughout": headers("ce-id", "%35%30%25%20%22%6F%66%66%22", "ce-source", "%2Fshop%2F%C3%A9"),
		"HTTP, binary, formerly":           headers("ce-id", `"50%25 \"off\""`, "ce-source", `"/shop/é"`),
		"both bindings, in agreement":      headers("ce-id", "50%25%20%22off%22", "ce_source", source, "ce_id", id),
		"structured":                       structured(structuredType, body),
		"structured, with parameters":      structured("application/cloudevents+json; charset=UTF-8", body),
		"structured, in capitals":          structured("Application/CloudEvents+JSON ;charset=utf-8", body),
		"structured, without a suffix":     structured("application/cloudevents", body),
		"structured, NATS":                 with(headers("Content-Type", structuredType), body),
		"structured, copies in headers":    with(headers("ce_id", "of a former hop", "ce_source", "x", "Content-Type", structuredType), body),
		"structured, spaces, escapes":      structured(structuredType, " {\n\"id\" : \"50% \\u0022off\\\"\" , \"source\":\"\\/shop\\/\\u00e9\" }\n"),
		"structured, the last counts":      structured(structuredType, `{"id":"x","source":"y","source":"/shop/é","id":"50% \"off\""}`),
		"no headers at all":                {Body: []byte(body)},
		"other headers":                    with(headers("trace", "1"), body),
	} {
		if got := storedKeyOf(t, f, m); got != want {
			t.Errorf("%s: the key is %s, want %s", what, got.ID, want.ID)
		}
	}
	wantKey(t, f, headers("ce_source", source, "ce_id", id), source+" "+id)
	for what, m := range map[string]dedup.Message{
		"another source":              headers("ce_source", "/shop/e", "ce_id", id),
		"another case":                headers("ce_source", "/Shop/é", "ce_id", id),
		"another id":                  headers("ce_source", source, "ce_id", id+" "),
		"percent signs, not decoded":  headers("ce_source", "/shop/%C3%A9", "ce_id", id),
		"encoded twice, decoded once": headers("ce-source", "/shop/%25C3%25A9", "ce-id", "50%25%20%22off%22"),
		"a letter moved":              headers("ce_source", source+"5", "ce_id", id[1:]),
	} {
		if got := storedKeyOf(t, f, m); got == want {
			t.Errorf("%s has the same key", what)
		}
	}
}

func TestACloudEventWithoutAnIdentityHasNoKey(t *testing.T) {
	t.Parallel()
	f := dedup.FromCloudEvent()
	const noSource, noID = "CloudEvent: no key: the event has no source", "CloudEvent: no key: the event has no id"
	for _, c := range []struct {
		what, want string
		m          dedup.Message
	}{
		{"nothing", noSource, dedup.Message{}},
		{"no id", noID, headers("ce_source", "s")},
		{"no source", noSource, headers("ce_id", "1")},
		{"an empty id", noID, headers("ce_source", "s", "ce_id", "")},
		{"an empty source", noSource, headers("ce-source", "", "ce-id", "1")},
		{"a quoted nothing", noID, headers("ce-source", "s", "ce-id", `""`)},
		{"names without the prefix", noSource, headers("source", "s", "id", "1", "ce", "x", "ce_", "y", "cesource", "s")},
		{"a part of each mode", noID, func() dedup.Message {
			m := headers("ce_source", "s")
			m.Body = []byte(`{"specversion":"1.0","id":"1"}`)
			return m
		}()},
		{"a part of each mode, the other way", noSource, func() dedup.Message {
			m := headers("ce_id", "1")
			m.Body = []byte(`{"specversion":"1.0","source":"s"}`)
			return m
		}()},
		{"structured, no id", noID, structured(structuredType, `{"source":"s"}`)},
		{"structured, no source", noSource, structured(structuredType, `{"id":"1"}`)},
		{"structured, other letters", noSource, structured(structuredType, `{"ID":"1","Source":"s"}`)},
		{"structured, an empty id", noID, structured(structuredType, `{"source":"s","id":""}`)},
		{"structured, null", `CloudEvent: member "id": no key: the member is null`, structured(structuredType, `{"source":"s","id":null}`)},
		{"structured, only in headers", noSource, func() dedup.Message {
			m := headers("content-type", structuredType, "ce_id", "1", "ce_source", "s")
			m.Body = []byte("{}")
			return m
		}()},
		{"a JSON body that is no event", noSource, dedup.Message{Body: []byte(`{"source":"s","id":"1"}`)}},
		{"a JSON body that is nearly one", noSource, dedup.Message{Body: []byte(`{"SPECVERSION":"1.0","source":"s","id":"1"}`)}},
		{"a body said to be something else", noSource, structured("application/json", `{"specversion":"1.0","source":"s","id":"1"}`)},
		{"a body that is not JSON", noSource, dedup.Message{Body: []byte("specversion")}},
		{"a list", noSource, dedup.Message{Body: []byte(`[{"specversion":"1.0","source":"s","id":"1"}]`)}},
		{"a text", noSource, dedup.Message{Body: []byte(`"specversion"`)}},
	} {
		t.Run(c.what, func(t *testing.T) { wantNoKey(t, f, c.m, c.want) })
	}
	// So it can be one of several places to look.
	either := dedup.FirstOf(f, dedup.FromHeader("id"))
	wantKey(t, either, headers("id", "7"), "7")
	wantKey(t, either, headers("id", "7", "ce_source", "s", "ce_id", "1"), "s 1")
}

// An error of its own and not a missing key: the next function of FirstOf would tell copies
// apart, and a repaired identity could be another event's.
func TestACloudEventThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	event := func(id string) string { return `{"specversion":"1.0","source":"s","id":` + id + `}` }
	const hint = "a percent sign in the value encodes nothing: the sign itself is written %25"
	for _, c := range []struct {
		what, want string
		m          dedup.Message
	}{
		{"a batch", `the message is a batch of events ("application/cloudevents-batch+json; charset=utf-8"): they have no identity in common; split it before it gets here`,
			structured("application/cloudevents-batch+json; charset=utf-8", "["+event(`"1"`)+"]")},
		{"a batch, in capitals", `the message is a batch of events ("Application/CloudEvents-Batch+JSON"): they have no identity in common; split it before it gets here`,
			structured("Application/CloudEvents-Batch+JSON", "[]")},
		{"Protobuf", `the event is in the format "application/cloudevents+protobuf": only application/cloudevents+json can be read`, structured("application/cloudevents+protobuf", "x")},
		{"Avro, with copies in headers", `the event is in the format "application/cloudevents+avro": only application/cloudevents+json can be read`,
			headers("ce_source", "s", "ce_id", "1", "content-type", "application/cloudevents+avro")},
		{"a format that begins alike", `the event is in the format "application/cloudevents+json5": only application/cloudevents+json can be read`, structured("application/cloudevents+json5", event(`"1"`))},
		{"no body", "the body is not JSON", structured(structuredType, "")},
		{"half a body", "the body is not JSON", structured(structuredType, `{"source":"s"`)},
		{"two bodies", "the body is not JSON", structured(structuredType, event(`"1"`)+event(`"2"`))},
		{"a list", "the body is not a JSON object", structured(structuredType, "["+event(`"1"`)+"]")},
		{"a text", "the body is not a JSON object", structured(structuredType, `"source"`)},
		{"an id that is an object", `member "id": a key is a string or a number, not {}`, structured(structuredType, event("{}"))},
		{"an id that is true", `member "id": a key is a string or a number, not true`, structured(structuredType, event("true"))},
		{"half a surrogate pair", `member "id": the string has half of a surrogate pair`, structured(structuredType, event(`"\ud83d"`))},
		{"the same, undeclared", `member "id": the string has half of a surrogate pair`, dedup.Message{Body: []byte(event(`"\ud83d"`))}},
		{"a source that is not UTF-8", `member "source": the string is not valid UTF-8`, structured(structuredType, "{\"source\":\"\xff\",\"id\":\"1\"}")},
		{"Kafka, an id that is not UTF-8", "the id is not valid UTF-8", headers("ce_source", "s", "ce_id", "\xff")},
		{"Kafka, a source that is not UTF-8", "the source is not valid UTF-8", headers("ce_source", "\xc0\xa0", "ce_id", "1")},
		{"an overlong encoding", "the id is not valid UTF-8", headers("ce-source", "s", "ce-id", "%C0%A0")},
		{"a lone percent sign", `header "ce-id": ` + hint, headers("ce-source", "s", "ce-id", "100%")},
		{"half an encoding", `header "ce-id": ` + hint, headers("ce-source", "s", "ce-id", "%2")},
		{"no hexadecimal", `header "Ce-Source": ` + hint, headers("Ce-Source", "%zz", "ce-id", "1")},
		{"a quote without end", `header "ce-id": a quoted value has no end`, headers("ce-source", "s", "ce-id", `"a`)},
		{"a quote with an escaped end", `header "ce-id": a quoted value has no end`, headers("ce-source", "s", "ce-id", `"a\"`)},
		{"a quote in the middle of something", `header "ce-id": something follows a quoted value`, headers("ce-source", "s", "ce-id", `"a"b`)},
		{"two ids", `header "ce_id": the event has another id, too: "2" and "1"`, headers("ce_source", "s", "ce_id", "1", "ce_id", "2")},
		{"an id and an empty one", `header "ce_id": the event has another id, too: "" and "1"`, headers("ce_source", "s", "ce_id", "1", "ce_id", "")},
		{"an empty id and one", `header "ce_id": the event has another id, too: "1" and ""`, headers("ce_source", "s", "ce_id", "", "ce_id", "1")},
		{"two sources, one of each binding", `header "ce-source": the event has another source, too: "a b" and "a%20b"`, headers("ce_source", "a%20b", "ce_id", "1", "ce-source", "a%20b")},
	} {
		t.Run(c.what, func(t *testing.T) {
			k, err := dedup.FromCloudEvent()(c.m)
			if want := "CloudEvent: " + c.want; err == nil || errors.Is(err, dedup.ErrNoKey) || err.Error() != want {
				t.Errorf("the key is %q, %v\nwant the error %s", k.Bytes(), err, want)
			}
		})
	}
	for _, m := range []dedup.Message{
		headers("ce_source", strings.Repeat("s", 2048), "ce_id", strings.Repeat("i", 2048)),
		structured(structuredType, event(`"`+strings.Repeat("i", 4096)+`"`)),
	} {
		if _, err := dedup.FromCloudEvent()(m); !errors.Is(err, dedup.ErrKeyTooLong) {
			t.Errorf("a long identity: %v", err)
		}
	}
}

// What the id's own time is worth: rows that arrive in the order of their index.
func TestTheKeyOfACloudEventIsInTheOrderOfItsID(t *testing.T) {
	t.Parallel()
	f := dedup.FromCloudEvent()
	for id, want := range map[string]time.Time{
		uuid7: time.UnixMilli(0x0192f4a05b7e), strings.ToUpper(uuid7): time.UnixMilli(0x0192f4a05b7e), ulid: time.UnixMilli(1469922850259),
		uuid4: {}, "1234": {}, strings.ToLower(ulid): {}, uuid7[:19] + "c" + uuid7[20:]: {}, "{" + uuid7 + "}": {},
	} {
		for _, eventTime := range []string{"", "2024-02-29T12:00:00Z"} {
			k := storedKeyOf(t, f, headers("ce_source", "/s", "ce_id", id, "ce_time", eventTime))
			if at, ok := k.Time(); ok != !want.IsZero() || ok && !at.Equal(want) {
				t.Errorf("%s: the key has the time %s (%t), want %s", id, at, ok, want)
			}
		}
	}
	// The same id of two sources is two events.
	if storedKeyOf(t, f, headers("ce_source", "/a", "ce_id", uuid7)) == storedKeyOf(t, f, headers("ce_source", "/b", "ce_id", uuid7)) {
		t.Error("two sources share a key")
	}
}

// For ever, and computed elsewhere.
func TestCloudEventsAreStoredLikeThisForEver(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"1234-1234-1234": "067e2eb7-0035-f501-2313-cd8d0d30d53d",
		uuid7:            "0192f4a0-5b7e-820b-97bf-c94e970954b9",
		ulid:             "01563e3a-b5d3-80c3-b7a2-c842eb52b089",
	} {
		if got := storedKeyOf(t, dedup.FromCloudEvent(), headers("ce_source", "/mycontext/subcontext", "ce_id", id)).ID.String(); got != want {
			t.Errorf("%s is stored as %s, want %s", id, got, want)
		}
	}
}
