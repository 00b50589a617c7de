package webhookpub

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"syscall"
	"time"
)

// newTransport makes connections that the guard has judged. A connection that is kept and
// used again still leads to the address that was judged.
func newTransport(c config, g *guard) *http.Transport {
	dialer := &net.Dialer{
		Timeout:  c.connect,
		Resolver: c.resolver,
		Control: func(network, address string, conn syscall.RawConn) error {
			if err := g.control(network, address, conn); err != nil {
				return err
			}
			if c.dialled != nil {
				return c.dialled(network, address)
			}
			return nil
		},
	}
	return &http.Transport{
		// No proxy, not even one that the environment names: the dialer would then see the
		// proxy's address alone, and the guard would judge that.
		Proxy:             nil,
		DialContext:       dialer.DialContext,
		ForceAttemptHTTP2: true,
		TLSClientConfig:   tlsConfig(c.roots, nil),
		// An answer that unpacks to gigabytes is not asked for.
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    c.perEndpoint,
		MaxIdleConns:           c.inFlight,
		IdleConnTimeout:        90 * time.Second,
	}
}

func tlsConfig(roots *x509.CertPool, certificate *tls.Certificate) *tls.Config {
	t := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if certificate != nil {
		t.Certificates = []tls.Certificate{*certificate}
	}
	return t
}

// transport returns what the endpoint is called with, and what to do afterwards. An
// endpoint with certificates of its own gets a transport of its own that keeps no
// connection: a pool of pools, by certificates that may change at any time, would have
// to be emptied by somebody.
func (p *Publisher) transport(e Endpoint) (rt *http.Transport, done func()) {
	if e.ClientCertificate == nil && e.RootCAs == nil {
		return p.shared, func() {}
	}
	own := p.shared.Clone()
	roots := e.RootCAs
	if roots == nil {
		roots = p.roots
	}
	own.TLSClientConfig = tlsConfig(roots, e.ClientCertificate)
	own.DisableKeepAlives = true
	return own, own.CloseIdleConnections
}

// noRedirects returns an answer of 300 to 399 as it is. A redirect could lead the body and
// its signature to anybody.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
