package dedup

import (
	"fmt"

	"github.com/semel-dev/semel/store"
)

// identified is a message whose mark is known. The message is the caller's and is only read.
type identified struct {
	m     *Message
	text  []byte // of its key
	order []byte // its ordering key, where it has one
	mark  store.Mark
}

// keyOf runs the key function.
func keyOf(key KeyFunc, m *Message) (k Key, err error) {
	defer faultOfMessage("the key function", &err)
	k, err = key(*m)
	if err == nil && len(k.text) == 0 {
		err = fmt.Errorf("%w: the key function returned the zero Key", ErrNoKey)
	}
	if err != nil {
		return Key{}, &KeyError{err}
	}
	return k, nil
}

// faultOfMessage makes an error of a panic in a function of the user's: a body that breaks a parser
// must not take the consumer down.
func faultOfMessage(what string, err *error) {
	if v := recover(); v != nil {
		*err = &KeyError{fmt.Errorf("%s panicked: %v", what, v)}
	}
}

// identify finds the message's mark. The place is room for its place, where the store keeps positions.
func (g *TxGuard[TTx]) identify(scope store.Scope, m *Message, place *store.Place, id *identified) (err error) {
	defer faultOfMessage("the function that finds a fingerprint or an order", &err)
	k, err := keyOf(g.key, m)
	if err != nil {
		return err
	}
	*id = identified{m: m, text: k.text, mark: store.Mark{Scope: scope, Time: m.Position.Time}}
	if !g.keyless { // The digest is a good part of what a message costs where only its place counts.
		id.mark.Key = k.Stored()
	}
	g.describe(id, place)
	return nil
}

// complete gives a message its key that has been left out.
func (g *TxGuard[TTx]) complete(id *identified) error {
	if !g.keyless || id.mark.Key != (store.Key{}) {
		return nil
	}
	k, err := keyOf(g.key, id.m)
	if err == nil {
		id.mark.Key = k.Stored()
	}
	return err
}

// given appends the messages as handlers get them: they know where what they cause comes from.
func (g *TxGuard[TTx]) given(ms []Message, ids []identified) []Message {
	for i := range ids {
		ms = append(ms, *ids[i].m)
		m := &ms[len(ms)-1]
		if key := ids[i].mark.Key; key != (store.Key{}) {
			m.origin = store.Origin{Consumer: g.consumer, Key: key}
		} else {
			// Few handlers ask. What it is to a guard around this one is of no account here.
			m.origin, m.originOf = store.Origin{}, g.find
		}
	}
	return ms
}

// originOf is asked, within a handler, about messages whose key was found before.
func (g *TxGuard[TTx]) originOf(m *Message) store.Origin {
	k, err := keyOf(g.key, m)
	if err != nil {
		panic(fmt.Sprintf("dedup: the key function has found a key before and does not now: %v", err))
	}
	return store.Origin{Consumer: g.consumer, Key: k.Stored()}
}

// describe adds what a mark may have besides its key.
func (g *TxGuard[TTx]) describe(id *identified, place *store.Place) {
	// First, because the functions may panic: without its place a message could not even be buried.
	if place != nil {
		p := &id.m.Position
		*place = store.Place{Log: p.Log, Partition: p.Partition, Offset: p.Offset, Epoch: id.m.Epoch}
		id.mark.Place = place
	}
	if g.config.fingerprint != nil {
		if content := g.config.fingerprint(*id.m); content != nil {
			id.mark.Fingerprint = store.DigestKey(content).ID
		}
	}
	if g.config.order != nil {
		if order := g.config.order(*id.m); len(order) > 0 {
			id.order, id.mark.Order = order, store.OrderID(order)
		}
	}
}

// places is room for the places of n messages, or for none where the store keeps no positions.
func (g *TxGuard[TTx]) places(n int) []store.Place {
	if g.fences == nil {
		return nil
	}
	return make([]store.Place, n)
}

// placeAt is nil where there are no places.
func placeAt(places []store.Place, i int) *store.Place {
	if places == nil {
		return nil
	}
	return &places[i]
}

// seal describes the records at which a position may come to lie: those that no message of
// their partition follows.
func seal(ids []identified) {
	for i := range ids {
		p := ids[i].mark.Place
		if p == nil || i+1 < len(ids) && isFollowed(p, ids[i+1].mark.Place) {
			continue
		}
		p.Record = RecordOf(*ids[i].m)
	}
}

func isFollowed(p, next *store.Place) bool {
	return next != nil && haveOnePosition(p, next) && next.Offset > p.Offset
}

// identifyAnyhow is for a message that may have no key: its place in the log keeps it from being
// buried twice. The prefix sets such marks apart from those of a key function that takes
// coordinates. Without a place there is no grave: a webhook without an id must not share one with
// all the others.
func (g *TxGuard[TTx]) identifyAnyhow(scope store.Scope, m *Message) (id identified, err error) {
	place := placeAt(g.places(1), 0)
	if err = g.identify(scope, m, place, &id); err == nil {
		err = g.complete(&id)
	}
	if err == nil {
		return id, nil
	}
	k, err := FromCoordinates()(*m)
	if err != nil {
		return identified{}, &KeyError{err}
	}
	key := store.TimedKey(m.Position.Time, append([]byte("no key\x00"), k.text...))
	id = identified{m: m, mark: store.Mark{Scope: scope, Key: key, Time: m.Position.Time}}
	// Whichever of the functions panicked, it may do so again.
	defer func() { _ = recover() }()
	g.describe(&id, place)
	return id, nil
}
