// Package consumertest is the exam that every consumer of a broker passes. Each case is one
// sentence of what a consumer promises and fails with that sentence.
//
// A consumer is handed over by a harness, in a test of its own:
//
//	func TestExam(t *testing.T) {
//		consumertest.TestConsumer(t, consumertest.Harness{
//			New:   func(t *testing.T) consumertest.Place { … },
//			Order: consumertest.InOrder,
//			…
//		})
//	}
//
// The cases are parallel sub-tests, each on a fresh log; go test -run picks one by its name.
// Each plays the part of the processor: it is handed a message, looks at what the broker
// regards as done, and answers. What a consumer or its broker cannot do is declared in the
// harness with the reason and skipped by name, so that the output says what was not examined.
//
// Not examined, because nothing in common is promised: a processor that panics itself, which
// ends the process (a guard contains the panics of handlers and answers with a failure), and
// what a consumer remembers of attempts over a restart.
//
// The package imports testing. It belongs into tests and nowhere else.
package consumertest
