package dedup

import (
	"fmt"

	"github.com/semel-dev/semel/store"
)

// identified is a message whose mark is known.
type identified struct {
	m     Message
	text  []byte
	order []byte
	mark  store.Mark
}

// identify runs the key function.
func identify(key KeyFunc, consumer string, scope store.Scope, m Message) (id identified, err error) {
	defer faultOfMessage("the key function", &err)
	k, err := key(m)
	if err == nil && len(k.text) == 0 {
		err = fmt.Errorf("%w: the key function returned the zero Key", ErrNoKey)
	}
	if err != nil {
		return identified{}, &KeyError{err}
	}
	id = identified{m: m, text: k.text, mark: store.Mark{Scope: scope, Key: k.stored, Time: m.Position.Time}}
	id.m.origin = store.Origin{Consumer: consumer, Key: k.stored}
	return id, nil
}

// faultOfMessage makes an error of a panic in a function of the user's: a body that breaks a parser
// must not take the consumer down.
func faultOfMessage(what string, err *error) {
	if v := recover(); v != nil {
		*err = &KeyError{fmt.Errorf("%s panicked: %v", what, v)}
	}
}

func (g *TxGuard[TTx]) identify(scope store.Scope, m Message) (id identified, err error) {
	defer faultOfMessage("the function that finds a fingerprint or an order", &err)
	if id, err = identify(g.key, g.consumer, scope, m); err == nil {
		g.describe(&id)
	}
	return id, err
}

// describe adds what a mark may have besides its key.
func (g *TxGuard[TTx]) describe(id *identified) {
	if g.config.fingerprint != nil {
		if content := g.config.fingerprint(id.m); content != nil {
			id.mark.Fingerprint = store.DigestKey(content).ID
		}
	}
	if g.config.order != nil {
		if order := g.config.order(id.m); len(order) > 0 {
			id.order, id.mark.Order = order, store.OrderID(order)
		}
	}
	if g.fences != nil {
		p := id.m.Position
		id.mark.Place = &store.Place{Log: p.Log, Partition: p.Partition, Offset: p.Offset, Record: RecordOf(id.m), Epoch: id.m.Epoch}
	}
}

// identifyAnyhow is for a message that may have no key: its place in the log keeps it from being
// buried twice. The prefix sets such marks apart from those of a key function that takes
// coordinates. Without a place there is no grave: a webhook without an id must not share one with
// all the others.
func (g *TxGuard[TTx]) identifyAnyhow(scope store.Scope, m Message) (id identified, err error) {
	if id, err = g.identify(scope, m); err == nil {
		return id, nil
	}
	k, err := FromCoordinates()(m)
	if err != nil {
		return identified{}, &KeyError{err}
	}
	k.stored = store.TimedKey(m.Position.Time, append([]byte("no key\x00"), k.text...))
	id = identified{m: m, mark: store.Mark{Scope: scope, Key: k.stored, Time: m.Position.Time}}
	id.m.origin = store.Origin{Consumer: g.consumer, Key: k.stored}
	// Whichever of the functions panicked, it may do so again.
	defer func() { _ = recover() }()
	g.describe(&id)
	return id, nil
}
