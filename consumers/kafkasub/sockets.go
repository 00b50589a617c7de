package kafkasub

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

// readLimit bounds a read for which kafka-go has set no deadline. It never reads ahead of
// an answer, so such a read is a broker that has gone quiet in the middle of a connection.
const readLimit = time.Minute

// sockets are the connections of one part of the consumer. kafka-go reads them without a
// context; closing the socket is the only way to end a read that nobody answers.
type sockets struct {
	ctx    context.Context
	cancel context.CancelFunc
	detour *detour // nil: whatever is dialled is meant

	mu   sync.Mutex
	open map[*socket]struct{}
}

func newSockets() *sockets {
	ctx, cancel := context.WithCancel(context.Background())
	return &sockets{ctx: ctx, cancel: cancel, open: map[*socket]struct{}{}}
}

// cut closes every connection and makes every further dial fail.
func (s *sockets) cut() {
	s.cancel()
	s.drop()
}

// drop closes every connection of the moment.
func (s *sockets) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Conn.Close() // What matters is that its reader returns.
	}
	clear(s.open)
}

// dialer is the user's dialer in everything but that its connections can be cut.
func (s *sockets) dialer(d *kafka.Dialer) *kafka.Dialer {
	c := *d
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return s.dial(ctx, d, network, addr)
	}
	return &c
}

// transportDial does for a [kafka.Transport], which knows neither resolver nor the way in
// which TLS names its server, what the dialer does by itself.
func (s *sockets) transportDial(d *kafka.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if d.Resolver != nil {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			found, err := d.Resolver.LookupHost(ctx, host)
			if err != nil {
				return nil, err
			}
			if len(found) > 0 {
				if h, _, err := net.SplitHostPort(found[0]); err == nil {
					host = h
				} else {
					host = found[0]
				}
				addr = net.JoinHostPort(host, port)
			}
		}
		conn, err := s.dial(ctx, d, network, addr)
		if err != nil || d.TLS == nil {
			return conn, err
		}
		conf := d.TLS
		if conf.ServerName == "" {
			conf = conf.Clone()
			conf.ServerName, _, _ = net.SplitHostPort(addr)
		}
		secure := tls.Client(conn, conf)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return secure, nil
	}
}

func (s *sockets) dial(ctx context.Context, d *kafka.Dialer, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if s.detour != nil && !s.detour.admits(addr) {
		return nil, errNoAnswer
	}
	dial := d.DialFunc
	if dial == nil {
		dial = (&net.Dialer{LocalAddr: d.LocalAddr, FallbackDelay: d.FallbackDelay, KeepAlive: d.KeepAlive}).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if s.detour != nil {
		s.detour.dialled(addr, err)
	}
	if err != nil {
		return nil, err
	}
	c := &socket{Conn: conn, all: s, addr: addr}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	s.open[c] = struct{}{}
	return c, nil
}

type socket struct {
	net.Conn
	all     *sockets
	addr    string
	judged  atomic.Bool // whether the broker answers
	bounded atomic.Bool // the client has set a deadline for reads
}

func (c *socket) Read(p []byte) (int, error) {
	if !c.bounded.Load() {
		if err := c.Conn.SetReadDeadline(time.Now().Add(readLimit)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.judge(true)
	}
	return n, err
}

func (c *socket) SetDeadline(t time.Time) error {
	c.bounded.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

func (c *socket) SetReadDeadline(t time.Time) error {
	c.bounded.Store(!t.IsZero())
	return c.Conn.SetReadDeadline(t)
}

// judge says that the broker has answered, or that there will be no answer, whichever comes first.
func (c *socket) judge(answer bool) {
	if d := c.all.detour; d != nil && !c.judged.Load() && !c.judged.Swap(true) {
		d.heard(c.addr, answer)
	}
}

func (c *socket) Close() error {
	c.judge(false)
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}
