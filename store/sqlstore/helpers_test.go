package sqlstore_test

import (
	"net/url"
	"strings"
	"testing"
)

// withSettings adds settings to a DSN in the form of a URL; both drivers send those that they do
// not know to the server.
func withSettings(t *testing.T, dsn string, settings ...string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for i := 0; i < len(settings); i += 2 {
		q.Set(settings[i], settings[i+1])
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // libpq, and so pgx, does not read + as a space
	return u.String()
}
