package kafkasub_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	saslplain "github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	franz "github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
)

func TestTopicThatDoesNotExistIsAnErrorAndIsNotMade(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1, kfake.AllowAutoTopicCreation())
	cfg := groupConfig(b)
	cfg.Topics = []string{topic, "ordres"}
	for range 2 {
		began := time.Now()
		err := newConsumer(t, cfg, newFake(always), kafkasub.WithStartLimit(300*time.Millisecond)).Run(context.Background())
		if err == nil || !strings.Contains(err.Error(), `topic "ordres" does not exist`) || !errors.Is(err, kafka.UnknownTopicOrPartition) {
			t.Errorf("Run = %v, want that the topic does not exist", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s to say so", took)
		}
	}
}

func TestTopicThatIsMadeWithinTheStartLimitIsFound(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	cfg := groupConfig(b)
	cfg.Topics = []string{"late"}
	book, log := newLogBook(t)
	p := newFake(always)
	r := run(t, newConsumer(t, cfg, p, log, kafkasub.WithStartLimit(time.Minute)))
	eventually(t, "the wait is logged", func() bool { return book.has("cannot reach the brokers yet", "late") })
	if err := b.CreateTopic(context.Background(), "late", 1); err != nil {
		t.Fatal(err)
	}
	produceRecords(t, b, &kgo.Record{Topic: "late", Value: []byte("m")})
	p.untilCalls(t, 1)
	r.stop(t)
}

func TestUnreachableBrokerIsAnError(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cfg := kafka.ConsumerGroupConfig{ID: group, Brokers: []string{addr}, Topics: []string{topic}}
	began := time.Now()
	err = newConsumer(t, cfg, newFake(always), kafkasub.WithStartLimit(300*time.Millisecond)).Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Run = %v, want that %s refuses connections", err, addr)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s to say so", took)
	}
}

// A broker that accepts the connection and then says nothing.
func TestSilentBrokerIsAnErrorAtTheStart(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1)
	cfg := groupConfig(b)
	cfg.Timeout = 500 * time.Millisecond
	through(t, b, &cfg).Freeze()
	began := time.Now()
	err := newConsumer(t, cfg, newFake(always), kafkasub.WithStartLimit(time.Second)).Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "brokers") {
		t.Errorf("Run = %v, want an error", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s to say so", took)
	}
}

func TestGroupThatCannotBeJoinedIsAnError(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 1, kfake.GroupMinSessionTimeout(20*time.Second))
	began := time.Now()
	err := newConsumer(t, groupConfig(b), newFake(always), kafkasub.WithStartLimit(time.Minute)).Run(context.Background())
	if !errors.Is(err, kafka.InvalidSessionTimeout) {
		t.Errorf("Run = %v, want that the session timeout is refused", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s, although trying again does not mend it", took)
	}
}

func TestOutageAfterTheStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 2)
	cfg := groupConfig(b)
	cfg.Timeout = time.Second
	proxy := through(t, b, &cfg)
	kept := newMarks()
	p := newFake(kept.apply)
	_, log := newLogBook(t)
	r := run(t, newConsumer(t, cfg, p, log, kafkasub.WithStartLimit(time.Second), kafkasub.WithSilence(500*time.Millisecond)))
	produce(t, b, 0, "a0")
	p.untilCalls(t, 1)
	proxy.CutAll()
	produce(t, b, 1, "b0")
	eventually(t, "what was written after the cut", func() bool { return kept.count() == 2 })
	proxy.Freeze()
	time.Sleep(3 * time.Second) // longer than the start limit
	produce(t, b, 0, "a1")
	proxy.Thaw()
	eventually(t, "what was written while frozen", func() bool { return kept.count() == 3 })
	untilCommitted(t, b, 0, 2)
	untilCommitted(t, b, 1, 1)
	r.stop(t)
}

func TestFrozenBrokerDoesNotHoldUpTheShutdown(t *testing.T) {
	t.Parallel()
	b := startBroker(t, 3)
	cfg := groupConfig(b)
	cfg.Timeout = 30 * time.Second
	proxy := through(t, b, &cfg)
	produce(t, b, 0, "m0", "m1")
	entered, goOn := make(chan struct{}), make(chan struct{})
	p := newFake(func(_ context.Context, m dedup.Message) dedup.Result {
		if m.Position.Offset == 1 {
			close(entered)
			<-goOn
		}
		return applied
	})
	r := run(t, newConsumer(t, cfg, p, kafkasub.WithFetch(0, 0, 20*time.Second)))
	<-entered
	untilCommitted(t, b, 0, 1)
	proxy.Freeze()
	began := time.Now()
	r.cancel()
	close(goOn)
	err := r.wait(t)
	if took := time.Since(began); took > 13*time.Second {
		t.Errorf("Run took %s to return", took)
	}
	for _, part := range []string{"the last offsets could not be committed: the coordinator does not answer", "the group could not be left"} {
		if !errors.Is(err, kafkasub.ErrNotClean) || !strings.Contains(err.Error(), part) {
			t.Errorf("Run = %v, want an ErrNotClean with %q", err, part)
		}
	}
	proxy.Thaw()
}

// certificate returns a server's TLS configuration and the pool that trusts it.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kfake"},
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
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

type resolver struct{ asked *atomic.Int64 }

func (r resolver) LookupHost(context.Context, string) ([]string, error) {
	r.asked.Add(1)
	return []string{"127.0.0.1"}, nil
}

func TestTLSAndSASLAndResolverOfTheDialerAreUsed(t *testing.T) {
	t.Parallel()
	server, pool := certificate(t)
	b := startBroker(t, 1, kfake.TLS(server), kfake.EnableSASL(), kfake.Superuser("PLAIN", "semel", "secret"))
	client := newClient(t, b, kgo.DialTLSConfig(&tls.Config{RootCAs: pool}), kgo.SASL(franz.Auth{User: "semel", Pass: "secret"}.AsMechanism()))
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	for _, r := range []*kgo.Record{
		{Topic: topic, Value: []byte("m")},
		// This one makes the consumer ask for its batch, which goes by another way than reading.
		{Topic: topic, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)},
	} {
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var asked atomic.Int64
	dialer := &kafka.Dialer{
		Timeout: 5 * time.Second, TLS: &tls.Config{RootCAs: pool}, Resolver: resolver{&asked},
		SASLMechanism: saslplain.Mechanism{Username: "semel", Password: "secret"},
	}
	cfg := groupConfig(b)
	_, port, _ := net.SplitHostPort(b.Brokers()[0])
	cfg.Brokers = []string{net.JoinHostPort("broker.invalid", port)} // only the resolver knows it
	cfg.Dialer = dialer
	p := newFake(always)
	r := run(t, newConsumer(t, cfg, p))
	p.untilCalls(t, 2)
	r.stop(t)
	if asked.Load() == 0 {
		t.Error("the resolver was not asked")
	}
	if dialer.DialFunc != nil {
		t.Error("the caller's dialer was changed")
	}

	cfg = groupConfig(b)
	cfg.Dialer = &kafka.Dialer{TLS: dialer.TLS, SASLMechanism: saslplain.Mechanism{Username: "semel", Password: "wrong"}}
	if err := newConsumer(t, cfg, p, kafkasub.WithStartLimit(time.Second)).Run(ctx); err == nil || !strings.Contains(err.Error(), "wants other credentials") {
		t.Errorf("Run with a wrong password = %v, want an error about credentials", err)
	}
	cfg.Dialer = &kafka.Dialer{TLS: &tls.Config{RootCAs: x509.NewCertPool()}, SASLMechanism: dialer.SASLMechanism}
	if err := newConsumer(t, cfg, p, kafkasub.WithStartLimit(time.Second)).Run(ctx); err == nil || !strings.Contains(err.Error(), "x509") {
		t.Errorf("Run without trust = %v, want an x509 error", err)
	}
}
