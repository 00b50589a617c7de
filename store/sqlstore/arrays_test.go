package sqlstore

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

func TestArrayLiterals(t *testing.T) {
	t.Parallel()
	id := store.ID{0: 0xab, 15: 1}
	for _, c := range []struct{ got, want string }{
		{idArray(nil), `{}`},
		{idArray([]store.ID{id, {}}), `{ab000000-0000-0000-0000-000000000001,00000000-0000-0000-0000-000000000000}`},
		{intArray([]int64{-1, 0, 1 << 62}), `{-1,0,4611686018427387904}`},
		{textArray([]string{`a"b\c`, "", "NULL", "{,}"}), `{"a\"b\\c","","NULL","{,}"}`},
		{bytesArray([][]byte{nil, {}, {0, 0xff, '\\'}}), `{NULL,"\\x","\\x00ff5c"}`},
		{timeArray([]time.Time{
			{}, time.Date(2024, 2, 29, 23, 59, 59, 999999999, time.FixedZone("", -3600)),
			time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(294000, 1, 1, 0, 0, 0, 0, time.UTC),
		}), `{NULL,"2024-03-01 00:59:59.999999+00","0001-01-01 00:00:00+00 BC","4001-01-01 00:00:00+00 BC","294000-01-01 00:00:00+00"}`},
	} {
		if c.got != c.want {
			t.Errorf("the literal is %s, want %s", c.got, c.want)
		}
	}
}

// What the server would never write is refused, and nothing is read past its end.
func TestBrokenArraysAreRefused(t *testing.T) {
	t.Parallel()
	for _, literal := range []string{
		"", "{", "}", "x", `{"`, `{"\`, `{"a"`, `{"a"b}`, `{"a",}`, `{,"a"}`, `{NULL}`, `{null}`, `{a"b}`, `{{"a"}}`,
		`{"\\x0"}`, `{"\\xgg"}`, `{"\\"}`, `{"\\1"}`, `{"\\12"}`, `{"\\999"}`, `{"\\777"}`,
	} {
		if values, err := readBytesArray(literal); err == nil {
			t.Errorf("%s was read as %q", literal, values)
		}
	}
}

func TestOlderFormOfBytes(t *testing.T) {
	t.Parallel()
	values, err := readBytesArray(`{abc,"\\000\\\\\\377\"",""}`)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{[]byte("abc"), {0, '\\', 0xff, '"'}, {}}
	if !bytes.Equal(bytes.Join(values, []byte("|")), bytes.Join(want, []byte("|"))) || len(values) != len(want) {
		t.Errorf("read %q, want %q", values, want)
	}
}

// What is written can be read, whatever the bytes are.
func FuzzBytesArray(f *testing.F) {
	f.Add([]byte(nil), []byte("x"), 2)
	f.Add([]byte(`\x00`), []byte(`"\{},`), 1)
	f.Add([]byte("NULL"), []byte{0, 0xff}, 0)
	f.Fuzz(func(t *testing.T, a, b []byte, n int) {
		values := [][]byte{append([]byte{}, a...), append([]byte{}, b...), {}}[:uint(n)%4]
		got, err := readBytesArray(bytesArray(values))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(values) {
			t.Fatalf("%d values, want %d", len(got), len(values))
		}
		for i := range values {
			if !bytes.Equal(got[i], values[i]) {
				t.Errorf("value %d is %q, want %q", i, got[i], values[i])
			}
		}
		for _, s := range []string{string(a), "{" + string(b) + "}", `{"` + string(a) + `"}`} {
			_, _ = readBytesArray(s) // it must not panic
		}
	})
}

// A text in a literal ends where it should and nowhere else.
func FuzzTextArray(f *testing.F) {
	f.Add("plain", `q"uote`)
	f.Add(`back\slash`, `{NULL,"x"}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		inner := strings.TrimSuffix(strings.TrimPrefix(textArray([]string{a, b}), "{"), "}")
		first, rest, err := cutElement(inner)
		if err != nil || first != a || rest == "" || rest[0] != ',' {
			t.Fatalf("the first element of %s is %q, then %q (%v)", inner, first, rest, err)
		}
		second, rest, err := cutElement(rest[1:])
		if err != nil || second != b || rest != "" {
			t.Fatalf("the second element of %s is %q, then %q (%v)", inner, second, rest, err)
		}
	})
}
