package webhooksub

import (
	"net/http"
	"time"

	"github.com/semel-dev/semel/outbox/standardwebhooks"
)

// Verifier says whether a request comes from who it should. Implementations are safe for
// concurrent use.
type Verifier interface {
	// Verify judges the header and the body as they came and returns the message's id:
	// the same on every attempt, and covered by the signature. Where a sender signs the
	// body alone, an id from a header can be forged; return a digest of the body then.
	// An error means that the request is not to be believed; it is logged and never shown.
	Verify(h http.Header, body []byte, now time.Time) (id string, err error)
}

var _ Verifier = (*standardwebhooks.Verifier)(nil)

// Standard verifies what follows Standard Webhooks, under the names webhook-id,
// webhook-timestamp and webhook-signature, with a tolerance of five minutes for clocks.
// Give every key that is live, whsec_ or whpk_; during a rotation that is two. A key that is empty,
// short or malformed is an error here and not at the first request. For other names or another
// tolerance use [standardwebhooks.NewVerifier].
func Standard(keys ...string) (Verifier, error) {
	parsed := make([]standardwebhooks.VerifyingKey, len(keys))
	for i, key := range keys {
		k, err := standardwebhooks.ParseVerifyingKey(key)
		if err != nil {
			return nil, err
		}
		parsed[i] = k
	}
	return standardwebhooks.NewVerifier(parsed, standardwebhooks.DefaultTolerance)
}
