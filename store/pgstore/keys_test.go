package pgstore_test

import (
	"bytes"
	"errors"
	"math/rand"
	"strings"
	"testing"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// Keys are opaque bytes, whatever the database thinks of them as text.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	g := newGuard(t, newStore(t, pool), addEffect)

	random := make([]byte, dedup.MaxKeyLen) // incompressible, so it would not fit into an index
	rand.New(rand.NewSource(1)).Read(random)
	keys := map[string]string{
		"NUL": "a\x00b", "before the NUL": "a", "broken UTF-8": "\xff\xfe", "replacement character": "\uFFFD\uFFFD",
		"lower": "order-7", "upper": "ORDER-7", "space before": " order-7", "space behind": "order-7 ", "newline": "order-7\n",
		"NFC": "caf\u00e9", "NFD": "cafe\u0301", "dotless": "ORDER\u0131", "long": string(random), "long, last byte": string(random[:4095]) + "x",
		"quote": "'; drop table semel.marks_plain; --", "backslash": `\x6f`, "empty JSON": "{}", "zero": "0", "minus zero": "-0", "blank": " ",
		"UUID": "0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e", "UUID in upper case": "0192F4A0-5B7E-7C3A-9D2E-3F4A5B6C7D8E",
		"UUID without hyphens": "0192f4a05b7e7c3a9d2e3f4a5b6c7d8e", "UUID in braces": "{0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e}",
		"ULID": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "ULID in lower case": "01arz3ndektsv4rrffq69g5fav",
	}
	for round, want := range []dedup.Outcome{dedup.Applied, dedup.Duplicate} {
		for what, key := range keys {
			if r := g.Process(t.Context(), message(key)); r.Outcome != want {
				t.Errorf("round %d, %s: %s, %v, want %s", round, what, r.Outcome, r.Err, want)
			}
		}
	}
	wantEffects(t, pool, len(keys))

	for what, c := range map[string]struct {
		m    dedup.Message
		want error
	}{
		"a megabyte":     {message(strings.Repeat("a", 1<<20)), dedup.ErrKeyTooLong},
		"one too many":   {message(string(bytes.Repeat([]byte{0}, dedup.MaxKeyLen+1))), dedup.ErrKeyTooLong},
		"an empty value": {message(""), dedup.ErrNoKey},
		"no header":      {dedup.Message{}, dedup.ErrNoKey},
	} {
		r := g.Process(t.Context(), c.m)
		wantOutcome(t, r, dedup.Failed, store.FaultHandler)
		if !errors.Is(r.Err, c.want) || !dedup.IsPermanent(r.Err) {
			t.Errorf("%s: %v, want one that is %q and permanent", what, r.Err, c.want)
		}
	}
	wantEffects(t, pool, len(keys))
}

// Two consumers of one message have their effects each.
func TestConsumersDoNotShareKeys(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	for _, consumer := range []string{"billing", "Billing", "shipping"} {
		g, err := dedup.NewTx(newStore(t, pool), consumer, dedup.FromHeader("id"), dedup.Forever, addEffect)
		if err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, g.Process(t.Context(), message("m")), dedup.Applied, 0)
		wantOutcome(t, g.Process(t.Context(), message("m")), dedup.Duplicate, 0)
	}
	wantEffects(t, pool, 3)
}
