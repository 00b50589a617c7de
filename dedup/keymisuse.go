package dedup

import (
	"errors"
	"fmt"
)

// misuseError is the error of a key function that can work for no message: it would send
// them all to the dead letters, so constructors look for it and refuse it.
type misuseError struct{ error }

// broken is a key function that was made wrongly.
func broken(err error) KeyFunc {
	return func(Message) (Key, error) { return Key{}, &misuseError{err} }
}

// misuse asks a key function about an empty message and returns its error if that is about
// the function, not about the message.
func misuse(f KeyFunc) (err error) {
	if f == nil {
		return errors.New("a key function is nil")
	}
	defer func() { _ = recover() }() // a function of the user's may not expect an empty message
	var m *misuseError
	if _, e := f(Message{}); errors.As(e, &m) {
		return m
	}
	return nil
}

func misuseOfAny(name string, funcs []KeyFunc) error {
	if len(funcs) == 0 {
		return fmt.Errorf("%s has no key functions", name)
	}
	for i, f := range funcs {
		if err := misuse(f); err != nil {
			return fmt.Errorf("%s, key function %d: %w", name, i+1, err)
		}
	}
	return nil
}
