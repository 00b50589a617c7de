package pgsql

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Quote makes an SQL identifier of a schema's name.
func Quote(schema string) string { return `"` + strings.ReplaceAll(schema, `"`, `""`) + `"` }

// CheckSchema says what is wrong with the name that an option WithSchema was given.
func CheckSchema(name string) error {
	switch {
	case name == "":
		return errors.New("WithSchema: the name is empty; leave the option out for \"semel\"")
	case len(name) > 63:
		return fmt.Errorf("WithSchema(%q): the name has %d bytes where PostgreSQL takes 63", name, len(name))
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("WithSchema(%q): the name contains a NUL byte", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("WithSchema(%q): the name is not UTF-8", name)
	case strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("WithSchema(%q): names that begin with pg_ belong to PostgreSQL", name)
	}
	return nil
}

// CleanText makes text of what a person reads: errors may quote any bytes.
func CleanText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}
