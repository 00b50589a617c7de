package pgsql

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/semel-dev/semel/store"
)

// Fault judges an error of the server by its SQLSTATE, for statements of the store and of handlers
// alike; zero where the code alone says nothing. What a client knows of an error beyond its
// code, it judges itself.
func Fault(code string) store.Fault {
	switch code {
	case "40001", "40P01":
		return store.FaultConflict
	case "55P03":
		return store.FaultBusy
	case "25P03", "25P04":
		// The handler was idle in the transaction, or in it at all, for longer than the server allows. It would
		// be next time, too, so it must not look like an outage that passes.
		return store.FaultHandler
	case "26000", "42P05":
		// A pooler that does not know of prepared statements. The message is none the worse for it.
		return store.FaultOutage
	case "25006":
		// Read-only: a replica, or a primary that is being demoted.
		return store.FaultOutage
	case "57P01", "57P02", "57P03":
		return store.FaultOutage
	}
	switch code[:min(2, len(code))] {
	case "08", "53", "58":
		return store.FaultOutage
	}
	return 0
}

// OwnFault judges an error of one of the store's own statements where the same code from a handler's statement
// would be the handler's affair, or where there is something to add to it: the hint says what
// is wrong, or what to do. It is zero for all others, which are for [Fault].
func OwnFault(schema, code string) (f store.Fault, hint string) {
	switch code {
	case "3F000", "42P01", "42703", "42883":
		return store.FaultSetup, fmt.Sprintf("the tables in schema %s are missing or older than this package: run pgstore.Migrate with a role that may create them", schema)
	case "42501":
		return store.FaultSetup, fmt.Sprintf("the role needs USAGE on schema %s and SELECT, INSERT, UPDATE, DELETE on its tables", schema)
	case "57014":
		// A statement_timeout below the limit on lock waits ends the wait for a rival.
		return store.FaultBusy, ""
	case "26000", "42P05":
		return store.FaultOutage, "prepared statements do not survive this pooler"
	}
	return 0, ""
}

// IsNetworkError tells an error of the network below any client. So is [context.DeadlineExceeded] by its
// type: whoever has to tell it apart asks for it first.
func IsNetworkError(err error) bool {
	var network net.Error
	return errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
