package standardwebhooks

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// DefaultTolerance is how far a timestamp may be from the receiver's clock, to either side.
const DefaultTolerance = 5 * time.Minute

// MaxSignatures is how many signatures one header may hold. A rotation needs two. Each
// costs a computation over the whole body, which a stranger must not be able to order
// by the thousand.
const MaxSignatures = 16

// Verifier verifies messages of one sender. It is safe for concurrent use.
type Verifier struct {
	keys      []VerifyingKey
	names     []HeaderNames
	tolerance time.Duration
}

// NewVerifier takes every key that is live: a message is genuine when any of its
// signatures belongs to any of them. The tolerance is usually [DefaultTolerance]; a sender
// that repeats the first attempt's timestamp on all of them needs one as long as its
// schedule of retries. Without names, [Standard] are looked for; with several sets the
// first one that is present counts, whole.
func NewVerifier(keys []VerifyingKey, tolerance time.Duration, names ...HeaderNames) (*Verifier, error) {
	if len(keys) == 0 {
		return nil, errors.New("standardwebhooks: new verifier: no key is given: without one nothing is verified, so there is no default")
	}
	for _, k := range keys {
		if k.verify == nil {
			return nil, errors.New("standardwebhooks: new verifier: a key is the zero value: make keys with ParseVerifyingKey")
		}
	}
	if tolerance <= 0 {
		return nil, fmt.Errorf("standardwebhooks: new verifier: the tolerance is %s: it must be above zero, as clocks differ; %s is usual", tolerance, DefaultTolerance)
	}
	if len(names) == 0 {
		names = []HeaderNames{Standard}
	}
	for _, n := range names {
		if n.ID == "" || n.Timestamp == "" || n.Signature == "" {
			return nil, errors.New("standardwebhooks: new verifier: a header name is empty: a set has three")
		}
	}
	return &Verifier{append([]VerifyingKey(nil), keys...), append([]HeaderNames(nil), names...), tolerance}, nil
}

// Verify checks the body as it was received, before anything has parsed it, and returns
// the message's id. Each of the three headers must be there once.
func (v *Verifier) Verify(h http.Header, body []byte, now time.Time) (id string, err error) {
	s, err := v.read(h)
	if err != nil {
		return "", err
	}
	if err := CheckID(s.ID); err != nil {
		return "", err
	}
	at, err := parseTimestamp(s.Timestamp)
	if err != nil {
		return "", err
	}
	// The clock is asked before the signature: it is cheaper, and a message from the
	// past is refused either way.
	switch {
	case now.Sub(at) > v.tolerance:
		return "", ErrTooOld
	case at.Sub(now) > v.tolerance:
		return "", ErrTooNew
	}
	if err := v.match(s, body); err != nil {
		return "", err
	}
	return s.ID, nil
}

func (v *Verifier) read(h http.Header) (Signed, error) {
	for _, n := range v.names {
		if len(h.Values(n.ID)) == 0 {
			continue
		}
		for _, name := range []string{n.ID, n.Timestamp, n.Signature} {
			if len(h.Values(name)) != 1 {
				return Signed{}, fmt.Errorf("%w: %s", ErrHeaders, name)
			}
		}
		return Signed{h.Get(n.ID), h.Get(n.Timestamp), h.Get(n.Signature)}, nil
	}
	return Signed{}, fmt.Errorf("%w: %s", ErrHeaders, v.names[0].ID)
}

func (v *Verifier) match(s Signed, body []byte) error {
	signatures := strings.Split(s.Signature, " ")
	if len(signatures) > MaxSignatures {
		return fmt.Errorf("%w: %d, at most %d are read", ErrManySignatures, len(signatures), MaxSignatures)
	}
	signed := content(s.ID, s.Timestamp, body)
	for _, one := range signatures {
		version, text, _ := strings.Cut(one, ",")
		// Signatures of a version that no key has are passed over: a sender may add
		// new ones beside the old.
		signature, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			continue
		}
		for _, k := range v.keys {
			if k.version == version && k.verify(signed, signature) {
				return nil
			}
		}
	}
	return ErrNoSignature
}
