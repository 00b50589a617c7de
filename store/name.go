package store

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckConsumer says what is wrong with a consumer's name. Names are text: valid UTF-8
// without control characters, at most 200 bytes, without white space at either end,
// because such a name is a typing error that would be a new consumer.
func CheckConsumer(name string) error {
	switch {
	case name == "":
		return errors.New("the consumer's name is empty: give each consumer a name that stays the same over deploys")
	case len(name) > 200:
		return fmt.Errorf("the consumer's name has %d bytes where 200 are the most: %.40q", len(name), name)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("the consumer's name %q is not plain text: use UTF-8 without control characters", name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("the consumer's name %q has white space at one end", name)
	}
	return nil
}
