package natssub_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
)

// connectThrough returns a client whose network can be broken.
func (b *broker) connectThrough() (jetstream.JetStream, *servers.Proxy) {
	b.t.Helper()
	address, err := url.Parse(b.srv.URL())
	if err != nil {
		b.t.Fatal(err)
	}
	proxy, err := servers.StartProxy(address.Host)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = proxy.Close() }) // Some tests close it.
	nc, err := nats.Connect("nats://"+proxy.Addr(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.t.Fatal(err)
	}
	return js, proxy
}

// The connection is the user's: credentials and TLS are set there, and so is a prefix for JetStream's API.
func TestTheConnectionIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	certificate, pool := selfSigned(t)
	srv := servertest.StartNATS(t, servers.WithNATSOptions(func(o *server.Options) {
		o.Username, o.Password = "billing", "secret"
		o.TLS, o.TLSConfig = true, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}))
	nc, err := nats.Connect(srv.URL(), nats.UserInfo("billing", "secret"), nats.Secure(&tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	makeStream(t, js)
	publish(t, js, "a")
	p := &processor{}
	r := consume(t, js, p)
	settled(t, js)
	r.stop()
	if !nc.IsConnected() {
		t.Error("Run closed a connection that is not its own")
	}
	if len(p.got()) != 1 {
		t.Errorf("handled %v", p.got())
	}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nats"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestSeveralFilterSubjectsInOneDurable(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	for _, subject := range []string{"orders.new", "orders.lost", "orders.paid.7"} {
		if _, err := js.Publish(t.Context(), subject, []byte(subject)); err != nil {
			t.Fatal(err)
		}
	}
	p := &processor{}
	r := consumeWith(t, js, jetstream.ConsumerConfig{Durable: durable, FilterSubjects: []string{"orders.new", "orders.paid.*"}}, p)
	eventually(t, "two messages", func() bool { i := info(t, js); return i.NumPending == 0 && i.NumAckPending == 0 && len(p.got()) == 2 })
	r.stop()
	got := p.got()
	slices.Sort(got)
	if !slices.Equal(got, []string{"orders.new", "orders.paid.7"}) || p.messages()[0].Topic != string(p.messages()[0].Body) {
		t.Errorf("handled %v", got)
	}
}

// One connection serves several durables, and several consumers of one durable share its messages.
func TestSeveralConsumersInOneProcess(t *testing.T) {
	t.Parallel()
	js := startBroker(t).connect()
	makeStream(t, js)
	publish(t, js, numbered(100)...)
	shared := []*processor{{}, {}}
	audit := &processor{}
	rs := []*running{
		consume(t, js, shared[0]), consume(t, js, shared[1]),
		consumeWith(t, js, jetstream.ConsumerConfig{Durable: "audit"}, audit),
	}
	settled(t, js)
	eventually(t, "the other durable", func() bool { return len(audit.got()) == 100 })
	for _, r := range rs {
		r.stop()
	}
	if n := len(shared[0].got()) + len(shared[1].got()); n != 100 {
		t.Errorf("%d messages handled by the two of one durable, want 100", n)
	}
}
