package kafkasub_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/store"
)

// keyed returns n records of the topic's first partition, of so many keys in turn, with values
// like k3-0, k3-1.
func keyed(n, keys int) []*kgo.Record {
	rs := make([]*kgo.Record, n)
	for i := range rs {
		key := fmt.Sprintf("k%d", i%keys)
		rs[i] = &kgo.Record{Topic: topic, Key: []byte(key), Value: fmt.Appendf(nil, "%s-%d", key, i/keys)}
	}
	return rs
}

func produceKeyed(t testing.TB, b *servers.Kfake, n, keys int) {
	produceRecords(t, b, keyed(n, keys)...)
}

// orders remembers what was applied of each key.
type orders struct {
	mu    sync.Mutex
	ofKey map[string][]string
	n     int
}

func (o *orders) note(m dedup.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ofKey == nil {
		o.ofKey = map[string][]string{}
	}
	o.n++
	o.ofKey[string(m.Key)] = append(o.ofKey[string(m.Key)], string(m.Body))
}

func (o *orders) check(t *testing.T, n, keys int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	want := map[string][]string{}
	for _, r := range keyed(n, keys) {
		want[string(r.Key)] = append(want[string(r.Key)], string(r.Value))
	}
	for key := range want {
		if !slices.Equal(o.ofKey[key], want[key]) {
			t.Errorf("of key %s was applied %v,\nwant %v", key, o.ofKey[key], want[key])
		}
	}
}

// Handlers fail, messages are given up, members come and go; each key's messages take effect in
// their order all the same, and once.
func TestOrderPerKeyHoldsThroughFailuresAndRebalances(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*fake) (dedup.Processor, []kafkasub.Option){
		"each": func(f *fake) (dedup.Processor, []kafkasub.Option) { return each{f}, nil },
		"batch": func(f *fake) (dedup.Processor, []kafkasub.Option) {
			return batch{f}, []kafkasub.Option{kafkasub.WithBatch(8, time.Millisecond)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n, keys = 1500, 23
			b := startBroker(t, 1)
			kept, order := newMarks(), &orders{}
			settle := func(m dedup.Message, how dedup.Outcome) dedup.Result {
				r := kept.apply(context.Background(), m)
				if r.Outcome == dedup.Applied {
					order.note(m)
					r.Outcome = how
				}
				return r
			}
			answer := func(_ context.Context, m dedup.Message) dedup.Result {
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
				switch {
				case m.Position.Offset%97 == 5 && !kept.has(m.Position):
					return failed(store.FaultHandler, "poison")
				case rand.IntN(30) == 0:
					return failed(store.FaultOutage, "now and then")
				}
				return settle(m, dedup.Applied)
			}
			var buried atomic.Int64
			member := func() *running {
				f := newFake(answer)
				f.bury = func(_ context.Context, m dedup.Message, _ error) dedup.Result {
					if r := settle(m, dedup.Buried); r.Outcome != dedup.Buried {
						return r
					}
					buried.Add(1)
					return dedup.Result{Outcome: dedup.Buried}
				}
				p, opts := wrap(f)
				return run(t, newConsumer(t, groupConfig(b), p, append(opts, kafkasub.WithConcurrency(6))...))
			}
			produceKeyed(t, b, n, keys)
			r := member()
			for kept.count() < n {
				<-kept.change
				before := kept.count()
				for kept.count() < min(before+400, n) {
					<-kept.change
				}
				next := member() // takes the partition over, or not: either way the group rebalances
				r.stop(t)
				r = next
			}
			untilCommitted(t, b, 0, n)
			r.stop(t)
			order.check(t, n, keys)
			if want := int64((n-5)/97 + 1); buried.Load() != want {
				t.Errorf("%d messages are buried, want %d", buried.Load(), want)
			}
		})
	}
}

func TestOrderByChoosesTheKey(t *testing.T) {
	t.Parallel()
	const n, accounts = 200, 5
	b := startBroker(t, 1)
	var rs []*kgo.Record
	for i := range n {
		// No two records have the same key; what orders them is a header.
		rs = append(rs, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i),
			Headers: []kgo.RecordHeader{{Key: "account", Value: fmt.Append(nil, i%accounts)}}})
	}
	produceRecords(t, b, rs...)
	account := func(m dedup.Message) []byte { v, _ := m.Header("account"); return v }
	var mu sync.Mutex
	var order [accounts][]int64
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
		mu.Lock()
		defer mu.Unlock()
		i := m.Position.Offset % accounts
		order[i] = append(order[i], m.Position.Offset)
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithConcurrency(16), kafkasub.WithOrderBy(account)))
	untilCommitted(t, b, 0, n)
	r.stop(t)
	for i := range order {
		if len(order[i]) != n/accounts || !slices.IsSorted(order[i]) {
			t.Errorf("account %d was handled in the order %v", i, order[i])
		}
	}
}

func TestOrderByThatPanicsStopsTheConsumerAtTheMessage(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, "m0", "m1", "m2")
	p := newFake(always)
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithConcurrency(2), kafkasub.WithOrderBy(func(m dedup.Message) []byte {
		if m.Position.Offset == 1 {
			panic(errors.New("no account"))
		}
		return []byte("k")
	})))
	if err := r.wait(t); err == nil || !strings.Contains(err.Error(), "orders/0@1: the function of WithOrderBy panicked: no account") {
		t.Errorf("Run = %v", err)
	}
	if got := committed(t, b, 0); got > 1 {
		t.Errorf("committed %d, beyond the message whose order is not known", got)
	}
}

func TestAttemptsInLanesSurviveARebalance(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	produce(t, b, 0, numbered("m", 6)...)
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if m.Position.Offset == 1 || m.Position.Offset == 4 {
			return failed(store.FaultHandler, "poison")
		}
		return applied
	})
	r := run(t, newConsumer(t, groupConfig(b), p, kafkasub.WithConcurrency(6), kafkasub.WithPolicy(slowPolicy(4))))
	p.until(t, "two attempts of both", func() bool { return count(p.calls, "m1") >= 2 && count(p.calls, "m4") >= 2 })
	joinForAMoment(t, b)
	p.until(t, "both are buried", func() bool { return len(p.buried) == 2 })
	untilCommitted(t, b, 0, 6)
	r.stop(t)
	for _, m := range []string{"m1", "m4"} {
		if got := p.attempts(m); !slices.Equal(got, []int{1, 2, 3, 4}) {
			t.Errorf("attempts of %s: %v, want 1 to 4", m, got)
		}
	}
}

// joinForAMoment makes the group rebalance: a member comes that consumes another topic.
func joinForAMoment(t *testing.T, b *servers.Kfake) {
	t.Helper()
	other := joinOther(t, b)
	eventually(t, "the other member has joined", func() bool { return len(other.Assigned()) == 1 })
	other.stop(t)
}

func joinOther(t *testing.T, b *servers.Kfake) *running {
	t.Helper()
	cfg := groupConfig(b)
	cfg.Topics = []string{"payments"}
	if err := b.CreateTopic(context.Background(), "payments", 1); err != nil {
		t.Fatal(err)
	}
	return run(t, newConsumer(t, cfg, newFake(always)))
}
