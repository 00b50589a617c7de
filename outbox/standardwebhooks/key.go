package standardwebhooks

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

const (
	prefixSecret  = "whsec_"
	prefixPrivate = "whsk_"
	prefixPublic  = "whpk_"

	versionSecret  = "v1"
	versionKeyPair = "v1a"

	minSecret, maxSecret = 24, 64
)

// SigningKey makes signatures of one kind. The zero value is not usable; use
// [ParseSigningKey]. The key itself is inside a function, where neither a logger nor %+v
// can reach it.
type SigningKey struct {
	version string
	sign    func(content []byte) []byte
}

// VerifyingKey checks signatures of one kind. The zero value is not usable; use
// [ParseVerifyingKey].
type VerifyingKey struct {
	version string
	verify  func(content, signature []byte) bool
}

// ParseSigningKey reads a secret (whsec_) or the private half of a key pair (whsk_: the
// 32 bytes of the seed, or the 64 of seed and public key).
func ParseSigningKey(s string) (SigningKey, error) {
	prefix, raw, err := decode(s)
	if err != nil {
		return SigningKey{}, err
	}
	switch prefix {
	case prefixSecret:
		return SigningKey{versionSecret, mac(raw)}, nil
	case prefixPrivate:
		private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		return SigningKey{versionKeyPair, func(content []byte) []byte {
			return ed25519.Sign(private, content)
		}}, nil
	default:
		return SigningKey{}, errors.New("standardwebhooks: a whpk_ key is the public half of a pair and cannot sign: give the sender the whsk_ key")
	}
}

// ParseVerifyingKey reads a secret (whsec_) or the public half of a key pair (whpk_).
func ParseVerifyingKey(s string) (VerifyingKey, error) {
	prefix, raw, err := decode(s)
	if err != nil {
		return VerifyingKey{}, err
	}
	switch prefix {
	case prefixSecret:
		sign := mac(raw)
		return VerifyingKey{versionSecret, func(content, signature []byte) bool {
			return hmac.Equal(sign(content), signature)
		}}, nil
	case prefixPublic:
		public := ed25519.PublicKey(raw)
		return VerifyingKey{versionKeyPair, func(content, signature []byte) bool {
			return len(signature) == ed25519.SignatureSize && ed25519.Verify(public, content, signature)
		}}, nil
	default:
		return VerifyingKey{}, errors.New("standardwebhooks: a whsk_ key is the private half of a pair: whoever receives gets the whpk_ key")
	}
}

// NewSecret returns a fresh random secret of 32 bytes in its whsec_ form. Use one for each
// endpoint.
func NewSecret() string {
	var raw [32]byte
	// Read of crypto/rand never returns an error: it ends the program instead.
	_, _ = rand.Read(raw[:])
	return prefixSecret + base64.StdEncoding.EncodeToString(raw[:])
}

func mac(secret []byte) func(content []byte) []byte {
	return func(content []byte) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write(content)
		return h.Sum(nil)
	}
}

// decode checks a key as strictly as it can be checked, because a wrong one would
// otherwise show as messages that do not verify, on somebody else's machine. No error
// quotes the key.
func decode(s string) (prefix string, raw []byte, err error) {
	if strings.TrimSpace(s) == "" {
		return "", nil, errors.New("standardwebhooks: the key is empty: without one nothing is verified, so there is no default")
	}
	for _, version := range []string{versionSecret, versionKeyPair} {
		if strings.HasPrefix(s, version+",") {
			return "", nil, fmt.Errorf("standardwebhooks: the key begins with %q, which is the prefix of a signature: remove it", version+",")
		}
	}
	for _, prefix = range []string{prefixSecret, prefixPrivate, prefixPublic} {
		text, found := strings.CutPrefix(s, prefix)
		if !found {
			continue
		}
		if raw, err = decodeText(prefix, text); err != nil {
			return "", nil, err
		}
		return prefix, raw, checkRaw(prefix, raw)
	}
	return "", nil, errors.New("standardwebhooks: the key has no known prefix: it begins with whsec_, whsk_ or whpk_")
}

func decodeText(prefix, text string) ([]byte, error) {
	// The decoder passes over line breaks, so that two texts would be one key.
	if strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("standardwebhooks: the text behind %s is not base64: it has a line break", prefix)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err == nil {
		return raw, nil
	}
	if _, err := base64.RawStdEncoding.DecodeString(text); err == nil {
		return nil, fmt.Errorf("standardwebhooks: the base64 behind %s has no padding: its length is a multiple of four, filled up with =", prefix)
	}
	if strings.ContainsAny(text, "-_") {
		return nil, fmt.Errorf("standardwebhooks: the text behind %s is base64 for URLs: the standard alphabet has + and / where that has - and _", prefix)
	}
	return nil, fmt.Errorf("standardwebhooks: the text behind %s is not base64", prefix)
}

func checkRaw(prefix string, raw []byte) error {
	switch prefix {
	case prefixSecret:
		if len(raw) < minSecret || len(raw) > maxSecret {
			return fmt.Errorf("standardwebhooks: the secret has %d bytes: %d to %d random bytes are required", len(raw), minSecret, maxSecret)
		}
	case prefixPrivate:
		if len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
			return fmt.Errorf("standardwebhooks: the private key has %d bytes: it is a seed of %d, or seed and public key in %d", len(raw), ed25519.SeedSize, ed25519.PrivateKeySize)
		}
		whole := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if len(raw) == ed25519.PrivateKeySize && !whole.Equal(ed25519.PrivateKey(raw)) {
			return errors.New("standardwebhooks: the two halves of the private key do not belong together")
		}
	case prefixPublic:
		if len(raw) != ed25519.PublicKeySize {
			return fmt.Errorf("standardwebhooks: the public key has %d bytes: it has %d", len(raw), ed25519.PublicKeySize)
		}
	}
	return nil
}
