package dedup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/memstore"
)

// What a person reads who has put the parts together wrongly.
func TestConstructors(t *testing.T) {
	t.Parallel()
	s, id := memstore.New(), dedup.FromHeader("id")
	h := txHandler(add)
	type storeOf = store.Marks[*memstore.Tx]
	tx := func(s storeOf, consumer string, key dedup.KeyFunc, h txHandler, opts ...dedup.TxOption) func() error {
		return func() error { _, err := dedup.NewTx(s, consumer, key, dedup.Forever, h, opts...); return err }
	}
	lease := func(s store.Leases, consumer string, key dedup.KeyFunc, h dedup.HandlerFunc, opts ...dedup.Option) func() error {
		return func() error { _, err := dedup.New(s, consumer, key, h, opts...); return err }
	}
	const noKey = `the key function is nil: say where a message's identity is, as in FromHeader("event-id") or FromCoordinates(); there is no default`
	const broken = `dedup: consumer "c": the key function cannot work: `
	for _, c := range []struct {
		make func() error
		want string
	}{
		{tx(nil, "c", id, h), `dedup: consumer "c": the store is nil`},
		{tx(s, "c", nil, h), `dedup: consumer "c": ` + noKey},
		{tx(s, "c", id, nil), `dedup: consumer "c": the handler is nil`},
		{func() error { _, err := dedup.NewTx(storeOf(s), "c", id, 0, h); return err },
			`dedup: consumer "c": the time to keep marks is zero: say how long after a message another one with its key may come, as in 30*24*time.Hour, or Forever`},
		{func() error {
			_, err := dedup.NewTxBatch(storeOf(s), "c", id, time.Second, func(context.Context, *memstore.Tx, []dedup.Message) error { return nil })
			return err
		},
			`dedup: consumer "c": the time to keep marks is 1s: a minute is the least, and days are usual`},
		{tx(s, "c", id, h, dedup.WithHandlerLimit(0)), `dedup: consumer "c": WithHandlerLimit(0s): the limit must be above zero; leave the option out for none`},
		{tx(s, "c", id, h, dedup.WithFingerprint(nil)), `dedup: consumer "c": WithFingerprint: the function is nil: return the content that has to be the same whenever the key is`},
		{tx(s, "c", id, h, dedup.WithParking(nil)), `dedup: consumer "c": WithParking: the function is nil: return the ordering key, as OrderByKey does`},
		{tx(s, "c", id, h, dedup.WithObserver(nil)), `dedup: consumer "c": WithObserver: the function is nil: leave the option out if nobody observes`},
		{tx(onlyMarks{s}, "c", id, h, dedup.WithParking(dedup.OrderByKey)), `dedup: consumer "c": WithParking: dedup_test.onlyMarks keeps no dead letters, so it cannot keep what waits behind one`},
		{func() error { _, err := dedup.NewTxBatch(storeOf(s), "c", id, dedup.Forever, nil); return err }, `dedup: consumer "c": the handler is nil`},
		{func() error { _, err := dedup.NewTxBatch[*memstore.Tx](nil, "c", id, dedup.Forever, nil); return err }, `dedup: consumer "c": the store is nil`},
		{tx(s, "", id, h), `dedup: consumer "": the consumer's name is empty: give each consumer a name that stays the same over deploys`},
		{tx(s, " c", id, h), `dedup: consumer " c": the consumer's name " c" has white space at one end`},
		{tx(s, "c\x00", id, h), `dedup: consumer "c\x00": the consumer's name "c\x00" is not plain text: use UTF-8 without control characters`},
		{tx(s, strings.Repeat("c", 201), id, h), `dedup: consumer "` + strings.Repeat("c", 40) + `": the consumer's name has 201 bytes where 200 are the most: "` + strings.Repeat("c", 40) + `"`},
		{tx(s, "c", id, h, nil), `dedup: consumer "c": an option is nil`},
		{tx(s, "c", id, h, dedup.WithCommitLimit(0)), `dedup: consumer "c": WithCommitLimit(0s): 1ms is the least, and seconds are usual; past it an outcome is unknown`},
		{tx(s, "c", id, h, dedup.WithCommitLimit(time.Millisecond-1)), `dedup: consumer "c": WithCommitLimit(999.999µs): 1ms is the least, and seconds are usual; past it an outcome is unknown`},
		{tx(s, "c", id, h, dedup.WithConflictRetries(-1)), `dedup: consumer "c": WithConflictRetries(-1): zero is the least`},

		{lease(nil, "c", id, nothing), `dedup: consumer "c": the store is nil`},
		{lease(s, "c", nil, nothing), `dedup: consumer "c": ` + noKey},
		{lease(s, "c", id, nil), `dedup: consumer "c": the handler is nil`},
		{lease(s, "c ", id, nothing), `dedup: consumer "c ": the consumer's name "c " has white space at one end`},
		{lease(s, "c", id, nothing, nil), `dedup: consumer "c": an option is nil`},
		{lease(s, "c", id, nothing, dedup.WithLease(time.Millisecond)), `dedup: consumer "c": WithLease(1ms): 100ms is the least`},
		{lease(s, "c", id, nothing, dedup.WithKeep(time.Second)), `dedup: consumer "c": WithKeep(1s): it must not be below the lease, 30s`},

		// A key function that can find no key in any message would bury them all.
		{tx(s, "c", dedup.FromJSON("id"), h), broken + `"id" is not a JSON pointer to a member: it begins with a slash, as in "/payment/id"`},
		{tx(s, "c", dedup.FromJSON(""), h), broken + `"" is not a JSON pointer to a member: it begins with a slash, as in "/payment/id"`},
		{tx(s, "c", dedup.FromJSON("/a~"), h), broken + `JSON pointer "/a~": a tilde is written ~0 and a slash ~1`},
		{lease(s, "c", dedup.FromJSON("/a~2b"), nothing), broken + `JSON pointer "/a~2b": a tilde is written ~0 and a slash ~1`},
		{tx(s, "c", dedup.Composite(), h), broken + `Composite has no key functions`},
		{tx(s, "c", dedup.FirstOf(), h), broken + `FirstOf has no key functions`},
		{tx(s, "c", dedup.FirstOf(id, nil), h), broken + `FirstOf, key function 2: a key function is nil`},
		{tx(s, "c", dedup.FirstOf(id, dedup.Composite(id, dedup.FromJSON("x"))), h), broken + `FirstOf, key function 2: Composite, key function 2: "x" is not a JSON pointer to a member: it begins with a slash, as in "/payment/id"`},
	} {
		if err := c.make(); err == nil || err.Error() != c.want {
			t.Errorf("the error is %v\nwant %s", err, c.want)
		}
	}
}

func TestConstructorsTakeEveryGoodKeyFunction(t *testing.T) {
	t.Parallel()
	id := dedup.FromHeader("id")
	for _, key := range []dedup.KeyFunc{
		id, dedup.FromJSON("/id"), dedup.FromJSON("/"), dedup.FromCoordinates(), dedup.Composite(id), dedup.FirstOf(id, dedup.FromCoordinates()),
		func(m dedup.Message) (dedup.Key, error) { return dedup.KeyOf(m.Headers[0].Value) }, // panics without headers
		func(m dedup.Message) (dedup.Key, error) { return dedup.Key{}, errors.New("no") },
	} {
		if _, err := dedup.NewTx(memstore.New(), "c", key, dedup.Forever, txHandler(add)); err != nil {
			t.Error(err)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for o, want := range map[dedup.Outcome]string{
		dedup.Applied: "applied", dedup.Duplicate: "duplicate", dedup.Buried: "buried", dedup.Failed: "failed", dedup.Unknown: "unknown", 0: "no outcome",
	} {
		if o.String() != want {
			t.Errorf("%d is %q, want %q", o, o, want)
		}
		if settled := want == "applied" || want == "duplicate" || want == "buried"; o.Settled() != settled {
			t.Errorf("%s: settled is %t", o, o.Settled())
		}
	}
}

// What consumers find out about a guard by assertion.
var (
	_ dedup.EachProcessor  = (*dedup.TxGuard[*memstore.Tx])(nil)
	_ dedup.BatchProcessor = (*dedup.TxGuard[*memstore.Tx])(nil)
	_ dedup.Burier         = (*dedup.TxGuard[*memstore.Tx])(nil)
	_ dedup.Checker        = (*dedup.TxGuard[*memstore.Tx])(nil)
	_ dedup.Processor      = (*dedup.Guard)(nil)
	_ dedup.HandlerFunc    = func(context.Context, dedup.Message) error { return nil }
)
