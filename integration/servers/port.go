package servers

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const loopback = "127.0.0.1"

// Ports are taken from below the ranges that Linux, macOS and Windows use for outgoing connections. A server that is
// down for a moment would otherwise find its port in use by a client: a client that keeps dialling a closed port of
// that range is sooner or later given the very port as its own, and then is connected to itself.
const (
	firstPort = 20000
	lastPort  = 32767
)

var (
	portsMu sync.Mutex
	ports   = map[int]bool{} // handed out by this process and never again, so that a stopped server can come back
)

// freePort returns a loopback port that nobody listens on. Another process may still take it before the caller does;
// callers whose server finds it taken start over with another one.
func freePort() (int, error) {
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if ports[port] {
			continue
		}
		l, err := net.Listen("tcp", hostPort(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		ports[port] = true
		return port, nil
	}
	return 0, errors.New("no free loopback port found in 200 tries")
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
