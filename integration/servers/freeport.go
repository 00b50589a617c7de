package servers

// FreePort returns a loopback port that nobody listens on, for a server that a test runs by itself and starts again
// under the same address: it lies outside of the ranges from which clients are given theirs, so none of them takes it
// while the server is down. It is handed out once in the life of a process. Another process may still take it first.
func FreePort() (int, error) { return freePort() }
