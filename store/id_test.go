package store_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/semel-dev/semel/store"
)

func mustID(t testing.TB, s string) store.ID {
	t.Helper()
	id, err := store.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// RFC 9562, appendix A.4: the name www.example.com in the DNS name space.
func TestChildIDIsTheStandardsVersion5(t *testing.T) {
	dns := mustID(t, "6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	if got := store.ChildID(dns, "www.example.com").String(); got != "2ed6657d-e927-568b-95e1-2665a8aea6a2" {
		t.Errorf("ChildID is %s", got)
	}
}

func TestChildIDsDifferByParentAndName(t *testing.T) {
	a, b := store.NewID(), store.NewID()
	ids := make(map[store.ID]string)
	for _, parent := range []store.ID{{}, a, b} {
		for _, name := range []string{"", "#1", "#2", "#11", "captured", "captured\x00", "Captured"} {
			id := store.ChildID(parent, name)
			if former, there := ids[id]; there {
				t.Errorf("%s of %s has the id of %s", name, parent, former)
			}
			ids[id] = name + " of " + parent.String()
			if again := store.ChildID(parent, name); again != id {
				t.Errorf("%s of %s is %s, and then %s", name, parent, id, again)
			}
			wantVersion(t, id, 5)
		}
	}
}

func TestNewIDIsTheStandardsVersion7(t *testing.T) {
	before := time.Now().UnixMilli()
	id := store.NewID()
	after := time.Now().UnixMilli()
	wantVersion(t, id, 7)
	at, ok := store.Key{ID: id, Timed: true}.Time()
	if ms := at.UnixMilli(); !ok || ms < before || ms > after {
		t.Errorf("the time of the id is %d, made between %d and %d", ms, before, after)
	}
	if id.IsZero() {
		t.Error("a new id is the zero one")
	}
}

func TestNewIDsFollowTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids [][]byte
		for range 1000 {
			id := store.NewID()
			ids = append(ids, id[:])
			time.Sleep(time.Millisecond)
		}
		if !slices.IsSortedFunc(ids, bytes.Compare) {
			t.Error("ids of later milliseconds sort before earlier ones")
		}
	})
}

func TestNewIDsOfOneMillisecondDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := make(map[store.ID]bool)
		for range 10_000 {
			ids[store.NewID()] = true
		}
		if len(ids) != 10_000 {
			t.Errorf("%d different ids of 10000", len(ids))
		}
	})
}

func TestIsZero(t *testing.T) {
	if !(store.ID{}).IsZero() {
		t.Error("the zero ID is not zero")
	}
	if (store.ID{15: 1}).IsZero() {
		t.Error("an ID with one bit is zero")
	}
}

func TestParseIDReadsWhatStringWrites(t *testing.T) {
	for _, s := range []string{
		"00000000-0000-0000-0000-000000000000",
		"ffffffff-ffff-ffff-ffff-ffffffffffff",
		"0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e",
	} {
		id := mustID(t, s)
		if got := id.String(); got != s {
			t.Errorf("%s became %s", s, got)
		}
		if upper := mustID(t, strings.ToUpper(s)); upper != id {
			t.Errorf("the upper case of %s is %s", s, upper)
		}
	}
	if got := mustID(t, "01020304-0506-0708-090a-0b0c0d0e0f10"); got != (store.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}) {
		t.Errorf("the bytes are %v", got)
	}
}

func TestParseIDRefusesEverythingElse(t *testing.T) {
	for _, s := range []string{
		"",
		"0192f4a05b7e7c3a9d2e3f4a5b6c7d8e",
		"{0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e}",
		"urn:uuid:0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e",
		"0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8",
		"0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e0",
		"0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8g",
		"0192f4a05-b7e-7c3a-9d2e-3f4a5b6c7d8e",
		"0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d-e",
		" 192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e",
		"0192f4a0_5b7e_7c3a_9d2e_3f4a5b6c7d8e",
		"0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7dé",
	} {
		id, err := store.ParseID(s)
		if err == nil || !id.IsZero() {
			t.Errorf("ParseID(%q) is %s, %v", s, id, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), "store: ") || !strings.Contains(err.Error(), "UUID") {
			t.Errorf("ParseID(%q): the message is %q", s, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{
		// Right, in both cases.
		"0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e", "0192F4A0-5B7E-7C3A-9D2E-3F4A5B6C7D8E",
		// The right length, and wrong.
		"------------------------------------", "0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8\xff", strings.Repeat("0", 36),
		// Other lengths.
		"", "-", "0192f4a05b7e7c3a9d2e3f4a5b6c7d8e",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := store.ParseID(s)
		if err != nil {
			if !id.IsZero() {
				t.Errorf("the id is %s beside the error %v", id, err)
			}
			return
		}
		if !strings.EqualFold(id.String(), s) || strings.ToLower(s) != id.String() {
			t.Errorf("%q became %s", s, id)
		}
	})
}

func FuzzIDString(f *testing.F) {
	f.Add(make([]byte, 16))
	f.Add([]byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != 16 {
			return
		}
		if got := mustID(t, store.ID(b).String()); got != store.ID(b) {
			t.Errorf("%x became %x", b, got)
		}
	})
}

func wantVersion(t *testing.T, id store.ID, want byte) {
	t.Helper()
	if v, variant := id[6]>>4, id[8]>>6; v != want || variant != 2 {
		t.Errorf("%s has version %d and variant %b, want %d and 10", id, v, variant, want)
	}
}
