package sqlstore_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/store/sqlstore"
)

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for want, o := range map[string]sqlstore.Option{
		"an option is nil":            nil,
		"WithLockWait(0s)":            sqlstore.WithLockWait(0),
		"24 days":                     sqlstore.WithLockWait(25 * 24 * time.Hour),
		"WithAcquireWait(-1s)":        sqlstore.WithAcquireWait(-time.Second),
		"WithStatementLimit(0s)":      sqlstore.WithStatementLimit(0),
		"WithIdleLimit(1µs)":          sqlstore.WithIdleLimit(time.Microsecond),
		"WithIsolation(Linearizable)": sqlstore.WithIsolation(sql.LevelLinearizable),
		"the name is empty":           sqlstore.WithSchema(""),
		"belong to PostgreSQL":        sqlstore.WithSchema("pg_semel"),
	} {
		if _, err := sqlstore.New(db, o); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "sqlstore: ") {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
	if _, err := sqlstore.New(nil); err == nil {
		t.Error("a nil sql.DB was accepted")
	}
}
