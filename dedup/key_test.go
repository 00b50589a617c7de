package dedup_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

const (
	uuid7 = "0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e"
	uuid4 = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
	ulid  = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
)

func keyOf(t *testing.T, identity string) dedup.Key {
	t.Helper()
	k, err := dedup.KeyOf([]byte(identity))
	if err != nil {
		t.Fatal(err)
	}
	if string(k.Bytes()) != identity {
		t.Errorf("the key of %q has the bytes %q", identity, k.Bytes())
	}
	return k
}

func parsed(t *testing.T, s string) store.ID {
	t.Helper()
	id, err := store.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The form decides how a key is stored, and these are for ever: were one to change, messages
// that were done would be done again.
func TestKeyLayouts(t *testing.T) {
	t.Parallel()
	uuid7Time := time.UnixMilli(0x0192f4a05b7e)
	ulidTime := time.UnixMilli(1469922850259)
	digest := func(s string) store.Key { return store.DigestKey([]byte(s)) }
	timed := func(at time.Time, s string) store.Key { return store.TimedKey(at, []byte(s)) }
	upper, braces, flat := strings.ToUpper(uuid7), "{"+uuid7+"}", strings.ReplaceAll(uuid7, "-", "")
	variant, mixed := uuid7[:19]+"c"+uuid7[20:], uuid7[:35]+"E"
	for identity, want := range map[string]store.Key{
		uuid7:                                  {ID: parsed(t, uuid7), Timed: true},
		upper:                                  timed(uuid7Time, upper),
		mixed:                                  timed(uuid7Time, mixed),
		braces:                                 digest(braces),
		flat:                                   digest(flat),
		"urn:uuid:" + uuid7:                    digest("urn:uuid:" + uuid7),
		variant:                                digest(variant), // the variant of Microsoft
		uuid4:                                  digest(uuid4),
		"00000000-0000-0000-0000-000000000000": digest("00000000-0000-0000-0000-000000000000"),
		ulid:                                   timed(ulidTime, ulid),
		strings.ToLower(ulid):                  digest(strings.ToLower(ulid)),
		"8" + ulid[1:]:                         digest("8" + ulid[1:]), // beyond 48 bits
		ulid[:25] + "I":                        digest(ulid[:25] + "I"),
		ulid[:25]:                              digest(ulid[:25]),
		"payment-42":                           digest("payment-42"),
		strings.Repeat("a", 26):                digest(strings.Repeat("a", 26)),
		strings.Repeat("-", 36):                digest(strings.Repeat("-", 36)),
	} {
		if got := keyOf(t, identity).Stored(); got != want {
			t.Errorf("%q is stored as %s (timed %t), want %s (timed %t)", identity, got.ID, got.Timed, want.ID, want.Timed)
		}
	}
	for identity, want := range map[string]time.Time{uuid7: uuid7Time, upper: uuid7Time, ulid: ulidTime} {
		if at, ok := keyOf(t, identity).Stored().Time(); !ok || !at.Equal(want) {
			t.Errorf("the time of %q is %s, want %s", identity, at, want)
		}
	}
	// As bytes, the three spellings of one UUID differ, and so do their keys.
	if a, b := keyOf(t, uuid7).Stored(), keyOf(t, upper).Stored(); a == b || a.ID == b.ID {
		t.Error("two spellings share a key")
	}
}

func TestKeysThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, make := range map[string]func() (dedup.Key, error){
		"no key: the identity is empty":   func() (dedup.Key, error) { return dedup.KeyOf(nil) },
		"no key: the identity is empty ":  func() (dedup.Key, error) { return dedup.KeyOf([]byte{}) },
		"no key: the identity is empty  ": func() (dedup.Key, error) { return dedup.KeyAt(time.Now(), nil) },
		"key too long: 4097 bytes where 4096 are the most; take a shorter field or a digest of it":  func() (dedup.Key, error) { return dedup.KeyOf(bytes.Repeat([]byte("a"), 4097)) },
		"key too long: 4097 bytes where 4096 are the most; take a shorter field or a digest of it ": func() (dedup.Key, error) { return dedup.KeyAt(time.Now(), bytes.Repeat([]byte("a"), 4097)) },
		`no key: the identity "a" has a zero time`:                                                  func() (dedup.Key, error) { return dedup.KeyAt(time.Time{}, []byte("a")) },
	} {
		_, err := make()
		if want = strings.TrimRight(want, " "); err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
		if tooLong := strings.HasPrefix(want, "key too long"); errors.Is(err, dedup.ErrKeyTooLong) != tooLong || errors.Is(err, dedup.ErrNoKey) == tooLong {
			t.Errorf("%v is of the wrong kind", err)
		}
	}
	keyOf(t, strings.Repeat("a", 4096))
}

func TestKeyAtHoldsTheTimeToTheNanosecond(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 2, 29, 12, 0, 0, 1, time.UTC)
	first, _ := dedup.KeyAt(at, []byte("a"))
	for what, c := range map[string]struct {
		at       time.Time
		identity string
		same     bool
	}{
		"itself":           {at, "a", true},
		"another zone":     {at.In(time.FixedZone("x", 3600)), "a", true},
		"a nanosecond":     {at.Add(1), "a", false},
		"another identity": {at, "b", false},
	} {
		k, err := dedup.KeyAt(c.at, []byte(c.identity))
		if err != nil || (k.Stored() == first.Stored()) != c.same {
			t.Errorf("%s: %v, %s and %s", what, err, k.Stored().ID, first.Stored().ID)
		}
	}
}
