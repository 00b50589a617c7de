package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const natsStartLimit = 30 * time.Second

// NATSOption changes how a NATS server is started. Options say nothing about a server that the environment names.
type NATSOption interface{ applyNATS(*server.Options) }

type natsOption func(*server.Options)

func (o natsOption) applyNATS(c *server.Options) { o(c) }

// WithNATSOptions lets fn change the options of the embedded server before it starts, on every start. Host, port,
// JetStream and its store are set by then and should stay as they are.
func WithNATSOptions(fn func(*server.Options)) NATSOption { return natsOption(fn) }

// NATS is a NATS server with JetStream: one that runs inside this process, or one that the environment named. Its
// methods may be called concurrently.
type NATS struct {
	url string

	// What follows is for a server of our own; an external one has none of it.
	dir   string
	port  int
	opts  []NATSOption
	guard *guard

	mu      sync.Mutex
	run     *server.Server // nil while it is down.
	stopped bool
}

// OpenNATS returns the server that NATS_URL names, after having connected to it once, or starts one with [StartNATS]
// when the variable is empty.
func OpenNATS(ctx context.Context, opts ...NATSOption) (*NATS, error) {
	url := os.Getenv("NATS_URL")
	if url == "" {
		return StartNATS(ctx, opts...)
	}
	limit := natsStartLimit
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	conn, err := nats.Connect(url, nats.Timeout(limit))
	if err != nil {
		return nil, fmt.Errorf("servers: open the nats of NATS_URL: %w", err)
	}
	conn.Close()
	return &NATS{url: url}, nil
}

// StartNATS starts a NATS server with JetStream inside this process, on a free loopback port, with its store in a
// temporary directory. It logs nothing. The caller ends it with [NATS.Stop].
func StartNATS(ctx context.Context, opts ...NATSOption) (*NATS, error) {
	n, err := startNATS(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("servers: start nats: %w", err)
	}
	return n, nil
}

func startNATS(ctx context.Context, opts []NATSOption) (*NATS, error) {
	dir, err := os.MkdirTemp("", "semel-nats-")
	if err != nil {
		return nil, err
	}
	// It has nothing to kill; it removes the directory when this process dies.
	guard, err := startGuard("QUIT", dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	n := &NATS{dir: dir, opts: opts, guard: guard}
	for try := 1; ; try++ {
		if n.port, err = freePort(); err != nil {
			return nil, errors.Join(err, n.Stop())
		}
		n.url = "nats://" + hostPort(n.port)
		err = n.start(ctx)
		if err == nil {
			return n, nil
		}
		if try == startTries || !errors.Is(err, errPortTaken) {
			return nil, errors.Join(err, n.Stop())
		}
	}
}

var errPortTaken = errors.New("it cannot listen on its port")

func (n *NATS) start(ctx context.Context) error {
	o := &server.Options{
		ServerName: "semel",
		Host:       loopback,
		Port:       n.port,
		JetStream:  true,
		StoreDir:   n.dir,
		NoLog:      true,
		NoSigs:     true, // Signals are this process's own.
	}
	for _, opt := range n.opts {
		opt.applyNATS(o)
	}
	run, err := server.NewServer(o)
	if err != nil {
		return err
	}
	run.Start() // It returns once the server listens, or has given up without a word, for want of a logger.
	if err := n.check(ctx, run); err != nil {
		run.Shutdown()
		run.WaitForShutdown()
		return err
	}
	n.run = run
	return nil
}

// check tells whether a server that was started is up.
func (n *NATS) check(ctx context.Context, run *server.Server) error {
	limit := natsStartLimit
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	switch {
	case !run.JetStreamEnabled():
		return errors.New("JetStream did not start")
	case run.Addr() == nil:
		return fmt.Errorf("%w %d", errPortTaken, n.port)
	case !run.ReadyForConnections(limit):
		return fmt.Errorf("not ready on port %d after %v", n.port, limit.Round(time.Millisecond))
	}
	return nil
}

// URL is where clients connect. It stays the same over a shutdown and a restart.
func (n *NATS) URL() string { return n.url }

// External reports whether the environment named the server. Such a server is not shut down or restarted here.
func (n *NATS) External() bool { return n.dir == "" }

// Shutdown takes the server down and waits until it is: its clients are cut, its streams stay on disk. Shutting down a
// server that is not running does nothing.
func (n *NATS) Shutdown() error {
	if n.External() {
		return fmt.Errorf("servers: shut down nats: %w", ErrExternal)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end()
	return nil
}

// Restart starts the server again on the same port with the same streams and consumers; one that is running is shut
// down first.
func (n *NATS) Restart(ctx context.Context) error {
	if n.External() {
		return fmt.Errorf("servers: restart nats: %w", ErrExternal)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return errors.New("servers: restart nats: it was stopped and its store removed")
	}
	n.end()
	if err := n.start(ctx); err != nil {
		return fmt.Errorf("servers: restart nats: %w", err)
	}
	return nil
}

// Stop shuts the server down and removes its store. Stopping it again, or a server that the environment named, does
// nothing.
func (n *NATS) Stop() error {
	if n.External() {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return nil
	}
	n.stopped = true
	n.end()
	if err := errors.Join(n.guard.close(), os.RemoveAll(n.dir)); err != nil {
		return fmt.Errorf("servers: stop nats: %w", err)
	}
	return nil
}

func (n *NATS) end() {
	if n.run == nil {
		return
	}
	n.run.Shutdown()
	n.run.WaitForShutdown()
	n.run = nil
}
