package webhookpub_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/webhookpub"
)

func TestTroublesOfTheNetworkUseNoAttempt(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "https://" + closed.Addr().String()
	closed.Close()
	r := receive(t, nil)
	hangUp := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	hangUp.StartTLS()
	t.Cleanup(hangUp.Close)
	roots := r.roots()
	for name, e := range map[string]webhookpub.Endpoint{
		"connection refused":   {URL: refused},
		"no such name":         {URL: "https://nowhere.example:" + r.URL[len("https://127.0.0.1:"):]},
		"connection cut":       {URL: hangUp.URL, RootCAs: roots},
		"unknown authority":    {URL: r.URL, RootCAs: x509.NewCertPool()},
		"another name's cert":  {URL: "https://other.example:" + r.URL[len("https://127.0.0.1:"):], RootCAs: roots},
		"TLS that is too old":  {URL: oldTLS(t), RootCAs: roots},
		"a port without TLS":   {URL: "https" + plainHTTP(t)[len("http"):], RootCAs: roots},
		"certificate required": {URL: demanding(t, nil), RootCAs: roots},
	} {
		e.Secrets = secrets(t, secret)
		p := to(t, e, webhookpub.WithAllowPrivate(loopback), webhookpub.WithPorts(port(t, e.URL)), webhookpub.WithTimeout(5*time.Second),
			webhookpub.WithResolver(resolver(func(name string) []netip.Addr {
				if name == "other.example" {
					return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
				}
				return nil
			})))
		if err := one(t, p, event("a", "", "{}")); outbox.VerdictOf(err) != outbox.Unreached {
			t.Errorf("%s: %s (%v)", name, outbox.VerdictOf(err), err)
		}
	}
	if n := len(r.deliveries()); n != 0 {
		t.Errorf("%d deliveries", n)
	}
}

func TestAnEndpointMayAskForACertificateAndHaveAnAuthorityOfItsOwn(t *testing.T) {
	t.Parallel()
	certificate := selfSigned(t)
	clients := x509.NewCertPool()
	clients.AddCert(certificate.Leaf)
	url := demanding(t, clients)
	roots := receive(t, nil).roots() // The test servers share a certificate.
	e := webhookpub.Endpoint{URL: url, Secrets: secrets(t, secret), ClientCertificate: certificate, RootCAs: roots}
	p := to(t, e, webhookpub.WithAllowPrivate(loopback), webhookpub.WithPorts(port(t, url)))
	if err := one(t, p, event("a", "", "{}")); err != nil {
		t.Error(err)
	}
	e.RootCAs = nil
	p = to(t, e, webhookpub.WithAllowPrivate(loopback), webhookpub.WithPorts(port(t, url)), webhookpub.WithRootCAs(roots))
	if err := one(t, p, event("a", "", "{}")); err != nil {
		t.Errorf("with the publisher's authorities: %v", err)
	}
}

func oldTLS(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(status(200))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11} //nolint:gosec // That is what is refused.
	s.Config.ErrorLog = nolog
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func plainHTTP(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(status(200))
	t.Cleanup(s.Close)
	return s.URL
}

// demanding is a server that takes only clients with a certificate.
func demanding(t *testing.T, clients *x509.CertPool) string {
	t.Helper()
	s := httptest.NewUnstartedServer(status(200))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	s.Config.ErrorLog = nolog
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func selfSigned(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
