package pgstore

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/semel-dev/semel/store"
)

// beginsTx: results that have failed beforehand are the only way to see whether a batch
// would begin a transaction of its own, and with it get the right to end ours.
func beginsTx(b *pgx.Batch) bool { return pgx.FailedBatchResults(b, store.ErrTxControl).Tx() != nil }

// endsTx tells a statement that ends the transaction by its first words; comments and empty statements may
// stand before them. It does not see an end that stands behind another statement in the same text
// ("select 1; rollback"), nor one that was prepared through the connection and is called by its name; and
// what is sent through the connection itself is not looked at. Where such an end leaves no transaction
// open, that is noticed before the next statement and before COMMIT; where it opens another one at once
// (AND CHAIN, or BEGIN behind it) nobody notices.
func endsTx(sql string) bool {
	word, rest := cutWord(sql, blanks+";")
	second, rest := cutWord(rest, blanks)
	switch {
	case strings.EqualFold(word, "commit"), strings.EqualFold(word, "end"), strings.EqualFold(word, "abort"):
		return true
	case strings.EqualFold(word, "prepare"):
		return strings.EqualFold(second, "transaction")
	case strings.EqualFold(word, "rollback"):
		if strings.EqualFold(second, "work") || strings.EqualFold(second, "transaction") {
			second, _ = cutWord(rest, blanks)
		}
		return !strings.EqualFold(second, "to") // a savepoint
	}
	return false
}

// blanks are what the server takes for white space.
const blanks = " \t\r\n\f\v"

// cutWord splits off what comes before the next character that is no letter. Comments before it,
// and the characters given, are passed over.
func cutWord(sql, pass string) (word, rest string) {
	for {
		sql = strings.TrimLeft(sql, pass)
		if strings.HasPrefix(sql, "--") {
			sql = sql[min(2+strings.IndexAny(sql[2:]+"\n", "\r\n"), len(sql)):]
		} else if strings.HasPrefix(sql, "/*") {
			sql = behindComment(sql)
		} else {
			break
		}
	}
	for i := range len(sql) {
		if c := sql[i] | 0x20; c < 'a' || c > 'z' {
			return sql[:i], sql[i:]
		}
	}
	return sql, ""
}

// behindComment is what follows the comment with which sql begins. Comments nest; of one that does not end
// nothing is left, and the server refuses it.
func behindComment(sql string) string {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return sql[i+1:]
		}
	}
	return ""
}
