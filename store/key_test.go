package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

// Stored keys outlive every version of this package: were one of these to change, messages that were
// done would be done again.
func TestKeysAreStoredLikeThisForEver(t *testing.T) {
	at := time.Date(2024, 2, 29, 12, 34, 56, 789_000_001, time.UTC)
	for _, c := range []struct {
		name string
		key  store.Key
		want string
	}{
		{"digest of nothing", store.DigestKey(nil), "e3b0c442-98fc-1c14-9afb-f4c8996fb924"},
		{"digest", store.DigestKey([]byte("payment-42")), "39f07464-13c7-e689-09b2-2b532b16c207"},
		{"timed", store.TimedKey(at, []byte("payment-42")), "018df4dc-5495-8e8d-9733-b07f56a597d4"},
		{"timed before 1970", store.TimedKey(time.Unix(0, -1), []byte("payment-42")), "00000000-0000-8783-b21e-dbca6cfed8ba"},
		{"timed far away", store.TimedKey(time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), []byte("payment-42")), "ffffffff-ffff-8118-8d59-2d5387351e79"},
	} {
		if got := c.key.ID.String(); got != c.want {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
	}
}

func TestDigestKeyIsTheBeginningOfSHA256(t *testing.T) {
	for _, identity := range []string{"", "a", "payment-42", "\x00\xff"} {
		k := store.DigestKey([]byte(identity))
		sum := sha256.Sum256([]byte(identity))
		if !bytes.Equal(k.ID[:], sum[:16]) || k.Timed {
			t.Errorf("DigestKey(%q) is %s, timed %t", identity, k.ID, k.Timed)
		}
		if at, ok := k.Time(); ok || !at.IsZero() {
			t.Errorf("DigestKey(%q) has the time %s", identity, at)
		}
	}
}

func TestTimedKeyBeginsWithItsTime(t *testing.T) {
	const most = 1<<48 - 1
	for _, c := range []struct {
		at   time.Time
		want int64
	}{
		{time.Unix(0, 0), 0},
		{time.UnixMilli(1), 1},
		{time.Unix(0, 999_999), 0},
		{time.Date(2024, 2, 29, 12, 34, 56, 789_999_999, time.UTC), 1709210096789},
		{time.Date(2024, 2, 29, 12, 34, 56, 789_999_999, time.FixedZone("", 3600)), 1709206496789},
		{time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), 253402300799999},
		{time.UnixMilli(most), most},
		{time.UnixMilli(most + 1), most},
		{time.UnixMilli(math.MaxInt64), most},
		{time.UnixMilli(-1), 0},
		{time.Time{}, 0},
		{time.UnixMilli(math.MinInt64), 0},
	} {
		k := store.TimedKey(c.at, []byte("m"))
		at, ok := k.Time()
		if !ok || at.UnixMilli() != c.want {
			t.Errorf("TimedKey(%s) has the time %d, want %d", c.at, at.UnixMilli(), c.want)
		}
		wantVersion(t, k.ID, 8)
	}
}

func TestTimedKeysSortByTheirTime(t *testing.T) {
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	var keys [][]byte
	for i := range 1000 {
		k := store.TimedKey(at.Add(time.Duration(i)*time.Millisecond), []byte{byte(i * 31)})
		keys = append(keys, k.ID[:])
	}
	if !slices.IsSortedFunc(keys, bytes.Compare) {
		t.Error("keys of later milliseconds sort before earlier ones")
	}
}

func TestTimedKeysDifferByTimeAndIdentity(t *testing.T) {
	at := time.Date(2024, 2, 29, 12, 34, 56, 789_000_001, time.UTC)
	base := store.TimedKey(at, []byte("m"))
	for name, other := range map[string]store.Key{
		"another identity":                        store.TimedKey(at, []byte("n")),
		"an identity that goes on":                store.TimedKey(at, []byte("m\x00")),
		"a nanosecond later, same millisecond":    store.TimedKey(at.Add(1), []byte("m")),
		"before 1970, where the prefix is zero":   store.TimedKey(time.Unix(-1, 0), []byte("m")),
		"further back, where the prefix is zero":  store.TimedKey(time.Unix(-2, 0), []byte("m")),
		"far away, where the prefix has no room":  store.TimedKey(time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), []byte("m")),
		"further away, where it has no room left": store.TimedKey(time.Date(12000, 1, 1, 0, 0, 0, 1, time.UTC), []byte("m")),
	} {
		if other == base {
			t.Errorf("%s has the same key", name)
		}
	}
	if store.TimedKey(time.Unix(-1, 0), []byte("m")) == store.TimedKey(time.Unix(-2, 0), []byte("m")) {
		t.Error("two times before 1970 have the same key")
	}
	if same := store.TimedKey(at.In(time.FixedZone("", 7200)), []byte("m")); same != base {
		t.Error("the zone of the time is part of the key")
	}
}

// A version 7 id is stored as it is; were a made key to look like one, two messages could
// share it.
func FuzzTimedKey(f *testing.F) {
	// Ordinary.
	f.Add(int64(1709210096), int64(789_000_001), []byte("payment-42"))
	// Times that do not fit.
	f.Add(int64(-1), int64(0), []byte("payment-42"))
	f.Add(int64(math.MaxInt64), int64(0), []byte("payment-42"))
	f.Add(int64(math.MinInt64), int64(-1), []byte(""))
	// Identities like the bytes of a time.
	f.Add(int64(0), int64(0), []byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, sec, nsec int64, identity []byte) {
		at := time.Unix(sec, nsec)
		k := store.TimedKey(at, identity)
		if k != store.TimedKey(at, bytes.Clone(identity)) {
			t.Fatal("the key is no function of the time and the identity")
		}
		wantVersion(t, k.ID, 8)
		if !k.Timed {
			t.Error("the key is not timed")
		}
		got, _ := k.Time()
		if want := min(max(at.UnixMilli(), 0), 1<<48-1); got.UnixMilli() != want {
			t.Errorf("the time is %d, want %d", got.UnixMilli(), want)
		}
		if other := store.TimedKey(at, append(bytes.Clone(identity), 0)); other == k {
			t.Error("another identity has the same key")
		}
		if other := store.TimedKey(at.Add(1), identity); other == k {
			t.Error("another time has the same key")
		}
	})
}

func FuzzDigestKey(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("payment-42"))
	f.Fuzz(func(t *testing.T, identity []byte) {
		before := hex.EncodeToString(identity)
		k := store.DigestKey(identity)
		if k.Timed || k != store.DigestKey(bytes.Clone(identity)) {
			t.Error("the key is no function of the identity")
		}
		if hex.EncodeToString(identity) != before {
			t.Error("the identity was changed")
		}
	})
}
