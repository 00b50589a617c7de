// Package storetest is the exam that every store passes. Each case is one sentence of a
// contract in package store and fails with that sentence.
//
// A store is handed over by a harness, in a test of its own:
//
//	func TestMarks(t *testing.T) {
//		storetest.TestMarks(t, storetest.MarksHarness[pgx.Tx]{
//			New: func(t *testing.T, lockWait time.Duration) storetest.MarksPlace[pgx.Tx] {
//				…
//			},
//		})
//	}
//
// The cases are parallel sub-tests, each on a fresh place; go test -run picks one by its
// name. What a store cannot do is declared in the harness and skipped by name, so that the
// output says what was not examined.
//
// The package imports testing. It belongs into tests and nowhere else.
package storetest
