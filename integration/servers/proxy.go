package servers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const proxyDialLimit = 10 * time.Second

// Proxy carries TCP connections to a server and can break them in the ways that networks do. A client connects to
// [Proxy.Addr] instead of the server. Its methods may be called concurrently.
type Proxy struct {
	network, target string
	listener        net.Listener
	carry           func(*link) // How the bytes of one connection travel; it returns when they no longer do.
	running         sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]bool
	flow   chan struct{} // Closed while bytes flow.
	closed bool

	refusing bool // See Refuse.
}

// StartProxy starts a proxy to the TCP address target on a free loopback port. The server need not be there yet: it is
// dialled anew for each client, and a client whose server cannot be reached is disconnected. The caller ends the proxy
// with [Proxy.Close].
func StartProxy(target string) (*Proxy, error) {
	return startProxy("tcp", target, (*link).copyBoth)
}

func startProxy(network, target string, carry func(*link)) (*Proxy, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("servers: start proxy to %s: %w", target, err)
	}
	p := &Proxy{
		network: network, target: target, listener: l, carry: carry,
		links: map[*link]bool{}, flow: make(chan struct{}),
	}
	close(p.flow)
	p.running.Go(p.accept)
	return p, nil
}

// Addr is the host and port where clients connect.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Freeze stops forwarding in both directions and leaves all connections open, like a network that swallows packets:
// nothing that reaches the proxy from now on goes any further until [Proxy.Thaw], which delivers it all. New clients
// are accepted and then hear nothing.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flow:
		p.flow = make(chan struct{})
	default: // Frozen already.
	}
}

// Thaw ends [Proxy.Freeze]. Bytes that were held back are forwarded in their order.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flow:
	default:
		close(p.flow)
	}
}

// CutAll breaks every connection of the moment, on both sides and at once. New ones are accepted.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Close breaks every connection, accepts no more, and waits until all that the proxy started has ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.CutAll()
	p.running.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("servers: close proxy to %s: %w", p.target, err)
	}
	return nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // Closed; or the process has no more file descriptors, and clients see a port that does not answer.
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	l := &link{proxy: p, client: client, done: make(chan struct{})}
	defer l.cut()
	p.mu.Lock()
	if p.closed || p.refusing {
		p.mu.Unlock()
		return
	}
	p.links[l] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	}()
	server, err := net.DialTimeout(p.network, p.target, proxyDialLimit)
	if err != nil {
		return // The client learns it from its connection, as it would without a proxy.
	}
	if l.attach(server) {
		p.carry(l)
	}
}

func (p *Proxy) flowing() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flow
}

// link is one client and its connection to the server.
type link struct {
	proxy  *Proxy
	client net.Conn
	server net.Conn      // Set by attach, before anything is carried.
	done   chan struct{} // Closed by cut.

	mu sync.Mutex
}

// attach gives the link its server, unless it was cut meanwhile.
func (l *link) attach(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done:
		server.Close()
		return false
	default:
		l.server = server
		return true
	}
}

// cut breaks both connections. It may be called again.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done:
		return
	default:
	}
	close(l.done)
	l.client.Close()
	if l.server != nil {
		l.server.Close()
	}
}

// both runs the two directions and returns when neither carries anything any more. The end of one direction's input is
// passed on and leaves the other open; an error cuts both.
func (l *link) both(up, down func() error) {
	var wg sync.WaitGroup
	run := func(direction func() error, to net.Conn) {
		err := direction()
		if err == nil {
			err = to.(interface{ CloseWrite() error }).CloseWrite() // TCP and Unix connections have it.
		}
		if err != nil {
			l.cut()
		}
	}
	wg.Go(func() { run(up, l.server) })
	wg.Go(func() { run(down, l.client) })
	wg.Wait()
}

func (l *link) copyBoth() {
	l.both(
		func() error { _, err := io.Copy(gate{l, l.server}, l.client); return err },
		func() error { _, err := io.Copy(gate{l, l.client}, l.server); return err },
	)
}

// gate writes to one end of a link while bytes flow, and waits while they do not.
type gate struct {
	link *link
	to   net.Conn
}

func (g gate) Write(b []byte) (int, error) {
	select {
	case <-g.link.proxy.flowing():
		return g.to.Write(b)
	case <-g.link.done:
		return 0, net.ErrClosed
	}
}
