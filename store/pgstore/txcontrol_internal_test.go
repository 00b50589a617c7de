package pgstore

import "testing"

// What is taken for an end of the transaction, and what is not.
func TestEndsTx(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"commit": true, "COMMIT;": true, "Commit Work": true, "commit and chain": true, "commit prepared 'x'": true,
		"end": true, "END TRANSACTION;": true, "abort": true, "abort work and no chain": true,
		"rollback": true, "rollback;": true, "rollback work": true, "ROLLBACK TRANSACTION": true,
		"rollback and chain": true, "rollback transaction and chain": true, "rollback prepared 'x'": true,
		"prepare transaction 'x'": true, "PREPARE  TRANSACTION'x'": true,

		// Whatever the server passes over may stand before and between the words.
		" \t\r\n\f;; commit":                   true,
		"/* */ commit":                         true,
		"/**/commit":                           true,
		"/* a /* comment */ in one */rollback": true,
		"-- why\ncommit":                       true,
		"-- why\r; /* and */ -- how\n\nabort":  true,
		"rollback -- all of it":                true,
		"rollback/* all */and chain":           true,
		"prepare /* -- */ transaction 'x'":     true,
		"--\ncommit":                           true,
		"rollback to a":                        false,
		"ROLLBACK TO SAVEPOINT a":              false,
		"rollback work to a":                   false,
		"rollback /* only */ transaction -- \nto savepoint a": false,

		"": false, ";": false, "--": false, "-- commit": false, "/* commit */": false, "/* commit": false, "/*/ commit": false, "/": false, "-": false,
		"select 'commit'": false, "commitment": false, "ending": false, "rollbacks": false, "aborted": false,
		"prepare transactions as select 1": false, "prepare commit as select 1": false, "execute commit": false,
		"savepoint commit": false, "insert into commit values (1)": false, "release a": false, "with ended as (select 1) select": false, "(commit)": false, `"commit"`: false,

		// Not seen, as the comment on endsTx says.
		"select 1; rollback": false, "select 1; commit;": false,
	} {
		if got := endsTx(sql); got != want {
			t.Errorf("%q: %t, want %t", sql, got, want)
		}
	}
}
