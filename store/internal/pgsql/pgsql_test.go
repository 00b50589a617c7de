package pgsql

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/store"
)

func TestTextsAreComplete(t *testing.T) {
	t.Parallel()
	texts := []string{MarkTimed, MarkPlain, LookTimed, LookPlain, Parked, MoveFence, ReadFence, RestartFence, TablesVersion, FindScope, KeepScope,
		AddScope, Bury, ListDead, GetDead, LockDead, RemoveDead, HoldKeys, ReleaseKeys, IsBehind, FailDead, DiscardDead, ParkedKeys, LimitWaits,
		Spend, Start, Forget, Enter, Leave, Reached, AppendOne, AppendMany}
	for i := range 8 {
		texts = append(texts, MarkMany(Kind{Timed: i&1 != 0, Print: i&2 != 0, Careful: i&4 != 0}))
	}
	schema := Quote(`a "b" {c}`)
	for _, text := range texts {
		for _, limits := range []Limits{{}, {Statement: time.Second, Idle: time.Minute}} {
			got := limits.In(schema, text)
			if rest := strings.ReplaceAll(got, schema, ""); strings.ContainsAny(rest, "{}") {
				t.Errorf("a word is left in %s", got)
			}
			if limited := strings.Contains(text, "{more"); limited && limits.Idle > 0 &&
				(!strings.Contains(got, "'statement_timeout', '1000'") || !strings.Contains(got, "'idle_in_transaction_session_timeout', '60000'")) {
				t.Errorf("the limits are not in %s", got)
			}
		}
	}
}

func TestOrderOfMarks(t *testing.T) {
	t.Parallel()
	mark := func(timed bool, scope store.Scope, id byte) store.Mark {
		return store.Mark{Scope: scope, Key: store.Key{Timed: timed, ID: store.ID{0: id}}}
	}
	want := []store.Mark{mark(true, 1, 200), mark(true, 2, 1), mark(true, 2, 2), mark(false, -5, 9), mark(false, 1, 1), mark(false, 1, 255)}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b store.Mark) int { return CompareMarks(&a, &b) })
	if !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

func TestReachOrder(t *testing.T) {
	t.Parallel()
	early, late := time.UnixMilli(1000), time.UnixMilli(2000)
	got := ReachOrder([]store.Reach{
		{Log: "b", Partition: 1, Newest: early}, {Log: "a", Partition: 2, Newest: early}, {Log: "a", Partition: 2, Newest: late},
		{Log: "a", Partition: 10, Newest: late}, {Log: "a", Partition: 10}, {Log: "a", Partition: 10, Newest: early},
	})
	want := []store.Reach{{Log: "a", Partition: 2, Newest: late}, {Log: "a", Partition: 10}, {Log: "b", Partition: 1, Newest: early}}
	if !slices.Equal(got, want) {
		t.Errorf("the reaches are %v, want %v", got, want)
	}
}

func TestClamp(t *testing.T) {
	t.Parallel()
	for at, want := range map[time.Time]time.Time{
		{}:                  {},
		time.UnixMilli(1):   time.UnixMilli(1),
		time.Unix(1<<55, 0): latest,
		time.Date(-4001, 1, 1, 0, 0, 0, 0, time.UTC): earliest,
	} {
		if got := Clamp(at); !got.Equal(want) {
			t.Errorf("%s is cut to %s, want %s", at, got, want)
		}
	}
}

// Headers come back as they were, nil and empty values apart, and bytes that are none are refused.
func FuzzHeaders(f *testing.F) {
	f.Add("name", []byte("value"), []byte(nil), 3)
	f.Add("", []byte{0, 0xff}, []byte{1, 'a', 200}, 0)
	f.Fuzz(func(t *testing.T, name string, value, junk []byte, n int) {
		headers := []store.Header{{Key: name, Value: append([]byte{}, value...)}, {Key: name + "2", Value: nil}, {Key: name, Value: []byte{}}}[:uint(n)%4]
		got, err := DecodeHeaders(EncodeHeaders(headers))
		if err != nil || len(got) != len(headers) {
			t.Fatalf("%d headers (%v), want %d", len(got), err, len(headers))
		}
		for i, h := range headers {
			if got[i].Key != h.Key || !bytes.Equal(got[i].Value, h.Value) || (got[i].Value == nil) != (h.Value == nil) {
				t.Errorf("header %d is %q, want %q", i, got[i], h)
			}
		}
		_, _ = DecodeHeaders(junk) // it must not panic
	})
}
