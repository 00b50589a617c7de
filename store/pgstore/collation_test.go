package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// After an upgrade of the C library or of ICU a collation may sort text in another way, and an
// index that was built in the old one no longer finds what it holds: a mark would pass
// twice, and a consumer would be given a new scope and do everything again. So whatever decides that is
// bytes and numbers, or text that is compared as bytes.
func TestNoIndexDependsOnACollation(t *testing.T) {
	t.Parallel()
	rows, err := migrated(t).Query(t.Context(), `
		select i.indexrelid::regclass || ': ' || a.attname || ' collate ' || c.collname
		from pg_index i
		join pg_class t on t.oid = i.indrelid
		join pg_namespace n on n.oid = t.relnamespace
		join pg_attribute a on a.attrelid = i.indexrelid
		join pg_collation c on c.oid = a.attcollation
		where n.nspname = 'semel' and c.collname not in ('C', 'POSIX')
		order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range found {
		t.Errorf("%s: an index of the library sorts by a collation that may change", column)
	}
}
