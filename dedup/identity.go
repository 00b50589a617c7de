package dedup

import (
	"fmt"

	"github.com/semel-dev/semel/store"
)

// identified is a message whose mark is known.
type identified struct {
	m    Message
	text []byte
	mark store.Mark
}

// identify runs the key function. A panic in it is the message's fault like any error: a
// body that breaks a user's parser must not take the consumer down.
func identify(key KeyFunc, consumer string, scope store.Scope, m Message) (id identified, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &KeyError{fmt.Errorf("the key function panicked: %v", v)}
		}
	}()
	k, err := key(m)
	if err == nil && len(k.text) == 0 {
		err = fmt.Errorf("%w: the key function returned the zero Key", ErrNoKey)
	}
	if err != nil {
		return identified{}, &KeyError{err}
	}
	m.origin = store.Origin{Consumer: consumer, Key: k.stored}
	return identified{m: m, text: k.text, mark: store.Mark{Scope: scope, Key: k.stored, Time: m.Position.Time}}, nil
}

// identifyByPlace is for giving up a message that has no key: its place in the log keeps
// it from being buried twice. The prefix sets such marks apart from those of a key
// function that takes coordinates. Without a place there is no grave: a webhook without an
// id must not share one with all the others.
func identifyByPlace(consumer string, scope store.Scope, m Message) (identified, error) {
	k, err := FromCoordinates()(m)
	if err != nil {
		return identified{}, &KeyError{err}
	}
	k.stored = store.TimedKey(m.Position.Time, append([]byte("no key\x00"), k.text...))
	m.origin = store.Origin{Consumer: consumer, Key: k.stored}
	return identified{m: m, mark: store.Mark{Scope: scope, Key: k.stored, Time: m.Position.Time}}, nil
}
