package webhookpub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
)

// chain are events, by their place in the call, that go one after another.
type chain []int

// fan is one call of Publish: topics go beside each other, within a topic the keys beside
// each other, within a key the events one after another.
type fan struct {
	p   *Publisher
	ctx context.Context
	// starting ends before ctx, at a third of the time that one attempt may take. With the
	// last attempt that began until then the call is over, instead of after as many
	// timeouts as there are events.
	starting context.Context
	events   []store.Event
	errs     []error // Each place is written by the one goroutine that has its chain.
}

func (f *fan) run() {
	starting, cancel := context.WithTimeout(f.ctx, f.p.timeout/3)
	defer cancel()
	f.starting = starting
	var wg sync.WaitGroup
	for topic, chains := range split(f.events) {
		wg.Go(func() { f.topic(topic, chains) })
	}
	wg.Wait()
}

// split finds the chains of each topic. Events without a key are chains of one.
func split(events []store.Event) map[string][]chain {
	topics := make(map[string][]chain)
	type name struct{ topic, key string }
	at := make(map[name]int)
	for i, e := range events {
		chains := topics[e.Topic]
		n := name{e.Topic, string(e.Key)}
		if c, seen := at[n]; seen && e.Key != nil {
			chains[c] = append(chains[c], i)
			continue
		}
		if e.Key != nil {
			at[n] = len(chains)
		}
		topics[e.Topic] = append(chains, chain{i})
	}
	return topics
}

// lane is what the goroutines that send to one endpoint share.
type lane struct {
	target Endpoint
	// tired is set when the endpoint is to be left alone for the rest of the call.
	tired atomic.Bool
}

func (f *fan) topic(topic string, chains []chain) {
	target, err := f.p.endpoints.Endpoint(f.starting, topic)
	if err != nil {
		err = fmt.Errorf("webhookpub: find endpoint %q: %w", topic, err)
		if errors.Is(err, ErrNoEndpoint) {
			err = outbox.Permanent(err)
		}
		for _, c := range chains {
			f.fail(c, err)
		}
		return
	}
	l := &lane{target: target}
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(f.p.perEndpoint, len(chains)) {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(chains)); n = next.Add(1) - 1 {
				f.chain(l, chains[n])
			}
		})
	}
	wg.Wait()
}

// chain sends events one after another until one is not confirmed.
func (f *fan) chain(l *lane, c chain) {
	for n, i := range c {
		err := f.p.Validate(f.events[i])
		if err == nil {
			err = f.one(l, f.events[i])
		}
		if err != nil {
			f.fail(c[n:], err)
			return
		}
	}
}

func (f *fan) one(l *lane, e store.Event) error {
	release := f.p.limiter.acquire(f.starting, e.Topic)
	if release == nil {
		return outbox.ErrNotSent
	}
	defer release()
	if f.starting.Err() != nil || l.tired.Load() {
		return outbox.ErrNotSent
	}
	err := f.p.attempt(f.ctx, l.target, e)
	if tiring(err) {
		l.tired.Store(true)
	}
	return err
}

// tiring tells an error after which the endpoint is left alone for the rest of the call: it
// could not be reached, or it said that it has too much to do. A refusal is neither; it
// may be all about one event.
func tiring(err error) bool { return outbox.VerdictOf(err) == outbox.Unreached }

// fail gives the first event of the chain the error. What is behind it was not sent.
func (f *fan) fail(c chain, err error) {
	f.errs[c[0]] = err
	for _, i := range c[1:] {
		f.errs[i] = outbox.ErrNotSent
	}
}
