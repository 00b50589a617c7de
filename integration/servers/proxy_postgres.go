package servers

import (
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CommitFault is what happens to a COMMIT on its way through a [PostgresProxy].
type CommitFault int

const (
	// LoseCommit cuts the connection before the server has seen the COMMIT, which therefore rolls back. What the client
	// sent before it in the same pipeline is forwarded.
	LoseCommit CommitFault = iota + 1

	// LoseAnswer lets the server carry out the COMMIT, waits for its answer, keeps that from the client and cuts the
	// connection. What the client sent after it in the same pipeline is not forwarded. A COMMIT that the server
	// refuses, or answers with ROLLBACK, passes untouched and leaves the fault armed.
	LoseAnswer
)

func (f CommitFault) String() string {
	switch f {
	case LoseCommit:
		return "lose commit"
	case LoseAnswer:
		return "lose answer"
	}
	return fmt.Sprintf("CommitFault(%d)", int(f))
}

// PostgresProxy is a [Proxy] in front of a PostgreSQL server that recognises each COMMIT of its clients, as a statement
// of a simple query and as a prepared statement that is executed, alone or in a pipeline, and can make it suffer a
// fault. To the client both faults look alike: a connection that ended before the answer.
//
// It sees statements, not what they do: a COMMIT inside a procedure, and the implicit one of a statement outside of a
// transaction block, are none. Commands that travel encrypted it could not see, so it answers a client's wish for TLS
// with a no, as a server without TLS does.
type PostgresProxy struct {
	*Proxy
	dsn string

	mu       sync.Mutex
	armed    []*ArmedFault
	sessions int
	commits  int
}

// StartPostgresProxy starts a proxy to the server of a connection string, which must name one host. Clients connect with [PostgresProxy.DSN]. The caller ends it with Close.
func StartPostgresProxy(dsn string) (*PostgresProxy, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("servers: start postgres proxy: %w", err)
	}
	p := &PostgresProxy{}
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	if p.Proxy, err = startProxy(network, address, p.carry); err != nil {
		return nil, err
	}
	p.dsn = redirect(dsn, p.listener.Addr().String())
	return p, nil
}

// DSN is the connection string that leads through the proxy to the same database.
func (p *PostgresProxy) DSN() string { return p.dsn }

// Commits is how many COMMITs of clients have reached the proxy.
func (p *PostgresProxy) Commits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commits
}

// Commit is one COMMIT as the proxy sees it, before anything has happened to it.
type Commit struct {
	Session int // Which client connection, counted from 1 in the order in which they sent their first message.
	Number  int // Which COMMIT, counted from 1 over all connections.
}

// Arm makes the next n commits suffer the fault, on whatever connection they come. A commit suffers one fault at most;
// of several armed ones the oldest that wants it takes it.
func (p *PostgresProxy) Arm(fault CommitFault, n int) *ArmedFault {
	return p.arm(&ArmedFault{fault: fault, left: n, limited: true})
}

// ArmWhen makes each commit suffer the fault for which when returns true, until the fault is disarmed. The commits of
// all connections are put to it one at a time; it must not use the proxy.
func (p *PostgresProxy) ArmWhen(fault CommitFault, when func(Commit) bool) *ArmedFault {
	return p.arm(&ArmedFault{fault: fault, when: when})
}

func (p *PostgresProxy) arm(a *ArmedFault) *ArmedFault {
	a.proxy = p
	a.fired = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, a)
	return a
}

func (p *PostgresProxy) nextSession() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions++
	return p.sessions
}

// claim asks the armed faults for one that wants the commit. Whoever gets one fires or releases it.
func (p *PostgresProxy) claim(session int) *ArmedFault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits++
	for _, a := range p.armed {
		switch {
		case a.disarmed, a.limited && a.left == 0:
			continue
		case a.when != nil && !a.when(Commit{Session: session, Number: p.commits}):
			continue
		}
		a.left--
		return a
	}
	return nil
}

// ArmedFault is a fault that waits for its commits, and the record of those it has hit.
type ArmedFault struct {
	proxy *PostgresProxy
	fault CommitFault
	when  func(Commit) bool
	fired chan struct{}

	// Under the proxy's mutex.
	limited  bool
	left     int
	hits     int
	disarmed bool
}

// Hits is how many commits have suffered the fault. It includes those whose clients already know.
func (a *ArmedFault) Hits() int {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	return a.hits
}

// Fired is closed when the fault has hit for the first time: the connection has been cut and, for [LoseAnswer], the
// transaction is committed.
func (a *ArmedFault) Fired() <-chan struct{} { return a.fired }

// Disarm lets all further commits pass.
func (a *ArmedFault) Disarm() {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	a.disarmed = true
}

// strike cuts the connection of the commit that claimed the fault.
func (a *ArmedFault) strike(l *link) {
	a.proxy.mu.Lock()
	a.hits++
	first := a.hits == 1
	a.proxy.mu.Unlock()
	l.cut()
	if first {
		close(a.fired)
	}
}

// release gives back a claim that did not come to a hit.
func (a *ArmedFault) release() {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	a.left++
}

// redirect makes a connection string lead to addr without TLS.
func redirect(dsn, addr string) string {
	if u, err := url.Parse(dsn); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		u.Host = addr
		q := u.Query()
		for _, name := range []string{"host", "port"} { // They would win over those before the path.
			q.Del(name)
		}
		q.Set("sslmode", "disable")
		u.RawQuery = q.Encode()
		return u.String()
	}
	host, port, _ := strings.Cut(addr, ":")
	return fmt.Sprintf("%s host=%s port=%s sslmode=disable", dsn, host, port) // Of two values for one keyword the later counts.
}
