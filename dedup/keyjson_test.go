package dedup_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/semel-dev/semel/dedup"
)

func TestFromJSON(t *testing.T) {
	t.Parallel()
	// What the examples of RFC 6901 find, as far as it may be a key.
	const rfc = `{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8}`
	for _, c := range []struct{ pointer, body, want string }{
		{"/foo/0", rfc, "bar"}, {"/foo/1", rfc, "baz"}, {"/", rfc, "0"}, {"/a~1b", rfc, "1"}, {"/c%d", rfc, "2"}, {"/e^f", rfc, "3"},
		{"/g|h", rfc, "4"}, {`/i\j`, rfc, "5"}, {`/k"l`, rfc, "6"}, {"/ ", rfc, "7"}, {"/m~0n", rfc, "8"},
		{"/~01", `{"~1": "escaped once"}`, "escaped once"},

		{"/id", `{"id":"x"}`, "x"}, {"/id", " \n{ \"id\" :\t\"x\" }\r\n ", "x"}, {"/ID", `{"id":"x","ID":"y"}`, "y"},
		{"/id", `{"id":7}`, "7"}, {"/id", `{"id":"7"}`, "7"}, {"/id", `{"id":-0}`, "-0"}, {"/id", `{"id":1.0}`, "1.0"}, {"/id", `{"id":1e2}`, "1e2"},
		{"/id", `{"id":123456789012345678901234567890}`, "123456789012345678901234567890"},
		{"/id", `{"id":1,"id":2}`, "2"}, // the last counts
		{"/a/b/c", `{"a":{"b":{"c":"deep"}}}`, "deep"}, {"/a/1/0", `{"a":[0,["x"]]}`, "x"}, {"/0", `["x"]`, "x"}, {"/0", `{"0":"x"}`, "x"},
		{"/id", `{"id":" a "}`, " a "}, {"/id", `{"id":"a\u0000b"}`, "a\x00b"}, {"/id", `{"id":"\n\"\\\/"}`, "\n\"\\/"},
		{"/id", `{"id":"\u00e9"}`, "é"}, {"/id", `{"id":"é"}`, "é"}, {"/id", `{"id":"\ud83d\ude00"}`, "😀"}, {"/id", `{"id":"\uD83D\uDE00x"}`, "😀x"},
		{"/id", `{"id":"\ufffd"}`, "\uFFFD"}, {"/id", `{"id":"` + "\uFFFD" + `"}`, "\uFFFD"},
		{"/id", `{"id":"\\ud83d"}`, `\ud83d`}, {"/id", `{"id":"\\\\"}`, `\\`}, {"/id", `{"id":"\"\\u"}`, `"\u`},
	} {
		wantKey(t, dedup.FromJSON(c.pointer), dedup.Message{Body: []byte(c.body)}, c.want)
	}
}

func TestFromJSONWithoutAKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pointer, body, want string }{
		{"/id", `{}`, `body at "/id": no key: there is no member "id"`},
		{"/id", `{"ID":1}`, `body at "/id": no key: there is no member "id"`},
		{"/id", `{"id":null}`, `body at "/id": no key: the member is null`},
		{"/id", `{"id":""}`, `body at "/id": no key: the identity is empty`},
		{"/a/b", `{"a":"text"}`, `body at "/a/b": no key: "b" is looked for in a value that has no members`},
		{"/a/b", `{"a":null}`, `body at "/a/b": no key: "b" is looked for in a value that has no members`},
		{"/id", `"text"`, `body at "/id": no key: "id" is looked for in a value that has no members`},
		{"/a/2", `{"a":[0,1]}`, `body at "/a/2": no key: there is no element "2" in a list of 2`},
		{"/a/-", `{"a":[0,1]}`, `body at "/a/-": no key: there is no element "-" in a list of 2`},
		{"/a/01", `{"a":[0,1]}`, `body at "/a/01": no key: there is no element "01" in a list of 2`},
		{"/a/-1", `{"a":[0,1]}`, `body at "/a/-1": no key: there is no element "-1" in a list of 2`},
		{"/a/+1", `{"a":[0,1]}`, `body at "/a/+1": no key: there is no element "+1" in a list of 2`},
		{"/a/18446744073709551616", `{"a":[0,1]}`, `body at "/a/18446744073709551616": no key: there is no element "18446744073709551616" in a list of 2`},
		{"/a/", `{"a":[0,1]}`, `body at "/a/": no key: there is no element "" in a list of 2`},
	} {
		wantNoKey(t, dedup.FromJSON(c.pointer), dedup.Message{Body: []byte(c.body)}, c.want)
	}
}

// What cannot be read for certain is an error of its own and not a missing key: repaired, it could
// be another message's key.
func TestFromJSONThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const half = `body at "/id": the string has half of a surrogate pair`
	for body, want := range map[string]string{
		"":                            `body at "/id": the body is not JSON`,
		`{"id":"x"`:                   `body at "/id": the body is not JSON`,
		`{"id":"x"} {"id":"y"}`:       `body at "/id": the body is not JSON`,
		`{'id':'x'}`:                  `body at "/id": the body is not JSON`,
		`{"id":NaN}`:                  `body at "/id": the body is not JSON`,
		`{"id":01}`:                   `body at "/id": the body is not JSON`,
		"\uFEFF{\"id\":\"x\"}":        `body at "/id": the body is not JSON`,
		"{\"id\":\"a\x00b\"}":         `body at "/id": the body is not JSON`,
		`{"id":true}`:                 `body at "/id": a key is a string or a number, not true`,
		`{"id":{"a":1}}`:              `body at "/id": a key is a string or a number, not {"a":1}`,
		`{"id":["x"]}`:                `body at "/id": a key is a string or a number, not ["x"]`,
		"{\"id\":\"\xff\"}":           `body at "/id": the string is not valid UTF-8`,
		"{\"id\":\"\xed\xa0\x80\"}":   `body at "/id": the string is not valid UTF-8`,
		`{"id":"\ud83d"}`:             half,
		`{"id":"\uDE00"}`:             half,
		`{"id":"\ud83dx"}`:            half,
		`{"id":"\ud83d\ud83d\ude00"}`: half,
		`{"id":"\ude00\ud83d"}`:       half,
		`{"id":"\ud83d\u0041"}`:       half,
		`{"id":"\ud83d\\ude00"}`:      half,
		`{"id":"\ud83d\n"}`:           half,
		`{"id":"\\ufffd\ud83d"}`:      half, // the text stands for no U+FFFD
		`{"id":"\ufffd\udfff"}`:       half,
	} {
		k, err := dedup.FromJSON("/id")(dedup.Message{Body: []byte(body)})
		if err == nil || errors.Is(err, dedup.ErrNoKey) || err.Error() != want {
			t.Errorf("%s: the key is %q, %v\nwant the error %s", body, k.Bytes(), err, want)
		}
	}
	long := `{"id":"` + strings.Repeat("a", 5000) + `"}`
	if _, err := dedup.FromJSON("/id")(dedup.Message{Body: []byte(long)}); !errors.Is(err, dedup.ErrKeyTooLong) {
		t.Errorf("a long key: %v", err)
	}
	deep := strings.Repeat("[", 1_000_000)
	if _, err := dedup.FromJSON("/id")(dedup.Message{Body: []byte(deep)}); err == nil {
		t.Error("a deep body has a key")
	}
}
