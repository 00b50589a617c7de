package webhooksub

import (
	"fmt"
	"time"

	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/store"
)

// ID takes the key from the verified id together with the source: two sources may well use
// the same ids. It is for messages of this package; others have no key.
func ID() dedup.KeyFunc {
	return func(m dedup.Message) (dedup.Key, error) {
		if m.Position.Broker != broker {
			return dedup.Key{}, fmt.Errorf("%w: webhooksub.ID is for webhooks, and this message is from %q", dedup.ErrNoKey, m.Position.Broker)
		}
		id, _ := m.Header(headerID)
		if len(id) == 0 {
			return dedup.Key{}, fmt.Errorf("%w: there is no header %q", dedup.ErrNoKey, headerID)
		}
		// A source has no slash, so this cannot be read another way.
		identity := append([]byte(m.Position.Log+"/"), id...)
		if at, ok := timeOf(string(id)); ok {
			return dedup.KeyAt(at, identity)
		}
		return dedup.KeyOf(identity)
	}
}

// timeOf reads the time in an id that is a UUID version 7. It is as old as the id and as
// immutable, so marks under it can be stored in its order.
func timeOf(id string) (time.Time, bool) {
	u, err := store.ParseID(id)
	if err != nil || u[6]>>4 != 7 || u[8]>>6 != 2 {
		return time.Time{}, false
	}
	return store.Key{ID: u, Timed: true}.Time()
}

// checkSource says what a source may be called. It is part of every key, so it keeps for
// ever.
func checkSource(source string) error {
	if source == "" || len(source) > 100 {
		return fmt.Errorf("the source %.100q has %d bytes: 1 to 100 are allowed, as in \"billing-provider\"", source, len(source))
	}
	for _, c := range []byte(source) {
		if c <= ' ' || c > '~' || c == '/' {
			return fmt.Errorf("the source %q has a character that is not allowed: printable ASCII without space and slash is, as in \"billing-provider\"", source)
		}
	}
	return nil
}
