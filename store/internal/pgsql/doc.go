// Package pgsql holds the statements on the tables in PostgreSQL, once for every client: texts
// and the order of their arguments, and what has to be the same in every process whichever client it
// uses, such as the order in which marks are locked and what the server's answers mean. It knows no
// driver and talks to nobody.
//
// A text names its schema {schema}; [In] and [Limits.In] put one there. An argument whose type the server could
// not tell from the text alone has a cast, so that a client may send it as text: an array as an array
// literal, a key as a UUID.
package pgsql

// Version is that of the oldest tables on which these statements work.
const Version = 11
