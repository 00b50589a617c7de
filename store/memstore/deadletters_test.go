package memstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// Consumers use the buffers of their messages again.
func TestLettersAreCopies(t *testing.T) {
	s := memstore.New()
	d := store.DeadLetter{
		Consumer: "billing", KeyText: []byte("key"), MessageKey: []byte("customer"), Body: []byte("body"),
		Headers: []store.Header{{Key: "id", Value: []byte("1")}},
	}
	want := fmt.Sprintf("%q", []any{d.KeyText, d.MessageKey, d.Body, d.Headers})
	smear := func(d store.DeadLetter) {
		clear(d.KeyText)
		clear(d.MessageKey)
		clear(d.Body)
		clear(d.Headers[0].Value)
		d.Headers[0].Key = "smeared"
	}
	check := func(what string, d store.DeadLetter, err error) {
		t.Helper()
		if got := fmt.Sprintf("%q", []any{d.KeyText, d.MessageKey, d.Body, d.Headers}); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", what, got, err, want)
		}
	}
	err := s.InTx(t.Context(), func(ctx context.Context, tx *memstore.Tx) error {
		err := s.BuryTx(ctx, tx, d)
		smear(d)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := s.GetDead(t.Context(), 1)
		check("GetDead", got, err)
		smear(got)
		all, err := s.ListDead(t.Context(), store.LetterFilter{}, 0, 1)
		check("ListDead", all[0], err)
		smear(all[0])
	}
}
