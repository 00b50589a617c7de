// Package bench measures Semel beside hand-written code on the same PostgreSQL, in one
// run. Only ratios mean anything: every repetition visits each variant once, and what is
// reported is the median over the repetitions. See README.md beside this file for how to run it
// and what was found.
package bench
