package servers

import "errors"

// ErrExternal is returned by the calls that stop, crash or restart a server when the server was named by the
// environment: it is not this package's to end.
var ErrExternal = errors.New("the server was named by the environment and is not ours to stop or restart")
