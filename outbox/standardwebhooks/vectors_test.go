package standardwebhooks_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	oracle "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/semel-dev/semel/outbox/standardwebhooks"
)

// The first vector is the one that the libraries of the standard test themselves with.
// The others were made with OpenSSL and Python from the key bytes 0, 1, 2, … 31.
var vectors = []struct {
	name, signing, verifying string
	id, body                 string
	at                       int64
	signature                string
}{
	{
		name:      "v1, the vector of the standard's libraries",
		signing:   "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		verifying: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		id:        "msg_p5jXN8AQM9LWM0D4loKWxJek",
		body:      `{"test": 2432232314}`,
		at:        1614265330,
		signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	},
	{
		name:      "v1, HMAC-SHA256",
		signing:   "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
		verifying: "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
		id:        "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
		body:      `{"type":"contact.created"}`,
		at:        1674087231,
		signature: "v1,faQlDG5R0hJmbF9vAphxIMAlxma80U/j30OngDW/gFM=",
	},
	{
		name:      "v1a, Ed25519 from a seed",
		signing:   "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
		verifying: "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=",
		id:        "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
		body:      `{"type":"contact.created"}`,
		at:        1674087231,
		signature: "v1a,dmvgrAo639dy8KVWbVty0vxDNFmmbx16my7yJo78JM2PT3yVMPMLtjoWbkzZs3hmP19mIKEbovBWKFGxLy/BDA==",
	},
	{
		name:      "v1a, Ed25519 from seed and public key",
		signing:   "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8DoQe/884Qvh1w3RjnS8CZZ+TWMJulDV8d3IZkElUxuA==",
		verifying: "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=",
		id:        "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
		body:      `{"type":"contact.created"}`,
		at:        1674087231,
		signature: "v1a,dmvgrAo639dy8KVWbVty0vxDNFmmbx16my7yJo78JM2PT3yVMPMLtjoWbkzZs3hmP19mIKEbovBWKFGxLy/BDA==",
	},
}

func TestSignaturesMatchTheVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			at := time.Unix(v.at, 999_999_999)
			s, err := standardwebhooks.Sign(v.id, at, []byte(v.body), signingKey(t, v.signing))
			if err != nil {
				t.Fatal(err)
			}
			if s.Signature != v.signature {
				t.Errorf("signature is %s, want %s", s.Signature, v.signature)
			}
			if id, err := verifier(t, v.verifying).Verify(headers(s), []byte(v.body), at); err != nil || id != v.id {
				t.Errorf("verify: %q, %v", id, err)
			}
		})
	}
}

func TestTheReferenceLibraryAgreesInBothDirections(t *testing.T) {
	const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	ref, err := oracle.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	bodies := []string{"", "{}", " { \"b\" : 1 ,\r\n\"a\":2 } ", "\x00\xff.1.2", strings.Repeat("x", 1<<16)}
	for _, body := range bodies {
		now := time.Now()
		s, err := standardwebhooks.Sign("msg_1", now, []byte(body), signingKey(t, secret), signingKey(t, standardwebhooks.NewSecret()))
		if err != nil {
			t.Fatal(err)
		}
		if err := ref.Verify([]byte(body), headers(s)); err != nil {
			t.Errorf("the reference does not verify ours for %.20q: %v", body, err)
		}
		theirs, err := ref.Sign("msg_1", now, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		s.Signature = theirs
		if _, err := verifier(t, secret).Verify(headers(s), []byte(body), now); err != nil {
			t.Errorf("we do not verify the reference's for %.20q: %v", body, err)
		}
	}
}

func signingKey(t testing.TB, s string) standardwebhooks.SigningKey {
	t.Helper()
	k, err := standardwebhooks.ParseSigningKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func verifyingKey(t testing.TB, s string) standardwebhooks.VerifyingKey {
	t.Helper()
	k, err := standardwebhooks.ParseVerifyingKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func verifier(t testing.TB, keys ...string) *standardwebhooks.Verifier {
	t.Helper()
	var parsed []standardwebhooks.VerifyingKey
	for _, k := range keys {
		parsed = append(parsed, verifyingKey(t, k))
	}
	v, err := standardwebhooks.NewVerifier(parsed, standardwebhooks.DefaultTolerance)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func headers(s standardwebhooks.Signed) http.Header {
	h := http.Header{}
	h.Set(standardwebhooks.Standard.ID, s.ID)
	h.Set(standardwebhooks.Standard.Timestamp, s.Timestamp)
	h.Set(standardwebhooks.Standard.Signature, s.Signature)
	return h
}
