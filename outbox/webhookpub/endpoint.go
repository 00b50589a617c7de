package webhookpub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/semel-dev/semel/outbox/standardwebhooks"
)

// Endpoint is where the events of one topic go.
type Endpoint struct {
	// URL is absolute. It has no user name and no fragment; a query is kept and never logged.
	URL string
	// Secrets sign each message, the newest first. Endpoints do not share secrets.
	Secrets []Secret
	// ClientCertificate, where set, is shown to the endpoint.
	ClientCertificate *tls.Certificate
	// RootCAs, where set, are trusted for this endpoint instead of the publisher's.
	RootCAs *x509.CertPool
}

// Secret is a key and how long it signs. To rotate, put a new secret before the old one and
// give the old one an end, a day ahead for instance: until then every message has both
// signatures, and the receiver may change over at any moment.
type Secret struct {
	Key standardwebhooks.SigningKey
	// Until is when the key stops signing. Zero is never.
	Until time.Time
}

// Endpoints finds endpoints. Endpoint is asked once for each topic in each call of Publish,
// from many goroutines, and should answer within a second or so: what it reads from a
// database it may remember. [ErrNoEndpoint] parks the event; any other error is taken
// for a fault of the lookup and uses no attempt.
type Endpoints interface {
	Endpoint(ctx context.Context, topic string) (Endpoint, error)
}

// EndpointsFunc is a function that is an [Endpoints].
type EndpointsFunc func(ctx context.Context, topic string) (Endpoint, error)

// Endpoint calls f.
func (f EndpointsFunc) Endpoint(ctx context.Context, topic string) (Endpoint, error) {
	return f(ctx, topic)
}

// ErrNoEndpoint is what an [Endpoints] returns for a topic that it does not know or that
// has been switched off. The events are parked and can be sent again when that changes.
var ErrNoEndpoint = errors.New("webhookpub: there is no such endpoint")

// keys are those that sign at this time.
func (e Endpoint) keys(now time.Time) ([]standardwebhooks.SigningKey, error) {
	var keys []standardwebhooks.SigningKey
	for _, s := range e.Secrets {
		if s.Until.IsZero() || now.Before(s.Until) {
			keys = append(keys, s.Key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the endpoint has no secret that signs now: nothing is sent unsigned")
	}
	return keys, nil
}
