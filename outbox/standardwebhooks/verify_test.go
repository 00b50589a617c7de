package standardwebhooks_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/outbox/standardwebhooks"
)

var (
	oldSecret = vectors[0].signing
	newSecret = vectors[1].signing
	body      = []byte(` {"b":1,  "a":2}`)
)

func sign(t testing.TB, at time.Time, keys ...string) standardwebhooks.Signed {
	t.Helper()
	var parsed []standardwebhooks.SigningKey
	for _, k := range keys {
		parsed = append(parsed, signingKey(t, k))
	}
	s, err := standardwebhooks.Sign("msg_1", at, body, parsed...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDuringARotationEitherKeyVerifiesAndAfterItOnlyTheNewOne(t *testing.T) {
	now := time.Now()
	during := headers(sign(t, now, newSecret, oldSecret))
	after := headers(sign(t, now, newSecret))
	for _, c := range []struct {
		name string
		h    http.Header
		keys []string
		want error
	}{
		{"both signatures, receiver has the old key", during, []string{oldSecret}, nil},
		{"both signatures, receiver has the new key", during, []string{newSecret}, nil},
		{"both signatures, receiver has both", during, []string{oldSecret, newSecret}, nil},
		{"new signature, receiver has both", after, []string{oldSecret, newSecret}, nil},
		{"new signature, receiver has the old key", after, []string{oldSecret}, standardwebhooks.ErrNoSignature},
		{"a receiver with another key", during, []string{standardwebhooks.NewSecret()}, standardwebhooks.ErrNoSignature},
	} {
		if _, err := verifier(t, c.keys...).Verify(c.h, body, now); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if first, _, _ := strings.Cut(during.Get("webhook-signature"), " "); first != after.Get("webhook-signature") {
		t.Errorf("the newest key's signature is not the first: %s", during.Get("webhook-signature"))
	}
}

func TestEveryPartOfTheMessageIsUnderTheSignature(t *testing.T) {
	now := time.Now()
	v := verifier(t, newSecret)
	good := sign(t, now, newSecret)
	changed := good
	changed.ID = "msg_2"
	if _, err := v.Verify(headers(changed), body, now); !errors.Is(err, standardwebhooks.ErrNoSignature) {
		t.Errorf("another id: %v", err)
	}
	changed = good
	changed.Timestamp = sign(t, now.Add(time.Second), newSecret).Timestamp
	if _, err := v.Verify(headers(changed), body, now); !errors.Is(err, standardwebhooks.ErrNoSignature) {
		t.Errorf("another timestamp: %v", err)
	}
	if _, err := v.Verify(headers(good), []byte(`{"b":1,"a":2}`), now); !errors.Is(err, standardwebhooks.ErrNoSignature) {
		t.Errorf("the same JSON in other bytes: %v", err)
	}
}

func TestTimestampsAreDigitsWithinTheTolerance(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		timestamp string
		want      error
	}{
		{"1700000000", nil},
		{"1699999700", nil},
		{"1699999699", standardwebhooks.ErrTooOld},
		{"1700000300", nil},
		{"1700000301", standardwebhooks.ErrTooNew},
		{"+1700000000", standardwebhooks.ErrTimestamp},
		{"01700000000", standardwebhooks.ErrTimestamp},
		{"-1700000000", standardwebhooks.ErrTimestamp},
		{"1700000000.0", standardwebhooks.ErrTimestamp},
		{"1.7e9", standardwebhooks.ErrTimestamp},
		{"1_700_000_000", standardwebhooks.ErrTimestamp},
		{"0x6553f100", standardwebhooks.ErrTimestamp},
		{"1700000000 ", standardwebhooks.ErrTimestamp},
		{"", standardwebhooks.ErrTimestamp},
		{"0", standardwebhooks.ErrTooOld},
		{"1900000000", standardwebhooks.ErrTooNew},
		{"1700000000000", standardwebhooks.ErrTimestamp},
		{"9223372036854775807", standardwebhooks.ErrTimestamp},
		{"99999999999999999999", standardwebhooks.ErrTimestamp},
	} {
		// Signed over the text as it stands, so that the form alone is what is judged.
		s := standardwebhooks.Signed{ID: "msg_1", Timestamp: c.timestamp, Signature: "v1,AAAA"}
		if c.want == nil {
			s = sign(t, now, newSecret)
			s.Timestamp = c.timestamp
		}
		_, err := verifier(t, newSecret).Verify(headers(s), body, now)
		if c.want == nil && c.timestamp != "1700000000" {
			// Within the tolerance, but signed for another second.
			c.want = standardwebhooks.ErrNoSignature
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.timestamp, err, c.want)
		}
	}
}

func TestUnknownVersionsArePassedOverAndTheirNumberIsLimited(t *testing.T) {
	now := time.Now()
	v := verifier(t, newSecret)
	good := sign(t, now, newSecret)
	for _, c := range []struct {
		name, signature string
		want            error
	}{
		{"a newer version first", "v2,abcd " + good.Signature, nil},
		{"rubbish around it", "x  , v1 v1, v1,!! " + good.Signature + " ", nil},
		{"at the limit", strings.Repeat("v1,AAAA ", standardwebhooks.MaxSignatures-1) + good.Signature, nil},
		{"above the limit", strings.Repeat("v1,AAAA ", standardwebhooks.MaxSignatures) + good.Signature, standardwebhooks.ErrManySignatures},
		{"a thousand", strings.Repeat("v1,AAAA ", 1000) + good.Signature, standardwebhooks.ErrManySignatures},
		{"the right bytes under another version", "v1a" + strings.TrimPrefix(good.Signature, "v1"), standardwebhooks.ErrNoSignature},
		{"no version", strings.TrimPrefix(good.Signature, "v1,"), standardwebhooks.ErrNoSignature},
		{"an empty signature", "v1,", standardwebhooks.ErrNoSignature},
		{"empty", "", standardwebhooks.ErrNoSignature},
	} {
		s := good
		s.Signature = c.signature
		if _, err := v.Verify(headers(s), body, now); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestHeadersMustBeThereExactlyOnce(t *testing.T) {
	now := time.Now()
	v := verifier(t, newSecret)
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		h := headers(sign(t, now, newSecret))
		h.Add(name, h.Get(name))
		if _, err := v.Verify(h, body, now); !errors.Is(err, standardwebhooks.ErrHeaders) {
			t.Errorf("%s twice: %v", name, err)
		}
		h.Del(name)
		if _, err := v.Verify(h, body, now); !errors.Is(err, standardwebhooks.ErrHeaders) {
			t.Errorf("no %s: %v", name, err)
		}
	}
}

func TestTheFirstSetOfNamesThatIsPresentCountsWhole(t *testing.T) {
	now := time.Now()
	keys := []standardwebhooks.VerifyingKey{verifyingKey(t, newSecret)}
	v, err := standardwebhooks.NewVerifier(keys, time.Minute, standardwebhooks.Standard, standardwebhooks.Svix)
	if err != nil {
		t.Fatal(err)
	}
	s := sign(t, now, newSecret)
	svix := http.Header{}
	svix.Set("svix-id", s.ID)
	svix.Set("svix-timestamp", s.Timestamp)
	svix.Set("svix-signature", s.Signature)
	if _, err := v.Verify(svix, body, now); err != nil {
		t.Errorf("svix names alone: %v", err)
	}
	svix.Set("webhook-id", "msg_1")
	if _, err := v.Verify(svix, body, now); !errors.Is(err, standardwebhooks.ErrHeaders) {
		t.Errorf("an id of one set and a signature of the other: %v", err)
	}
	if _, err := verifier(t, newSecret).Verify(svix, body, now); !errors.Is(err, standardwebhooks.ErrHeaders) {
		t.Errorf("svix names where only the standard ones are taken: %v", err)
	}
}

func TestIDsThatCouldBeSplitAnotherWayAreRefused(t *testing.T) {
	for _, id := range []string{"", "a.1", ".", "a b", "a\n", "a\x00", "a\x7f", "ä", strings.Repeat("a", standardwebhooks.MaxIDLen+1)} {
		if _, err := standardwebhooks.Sign(id, time.Now(), body, signingKey(t, newSecret)); !errors.Is(err, standardwebhooks.ErrID) {
			t.Errorf("%q was signed: %v", id, err)
		}
	}
	// Without the check these two would carry one signature: m.1700000000.1700000001.x
	now := time.Unix(1_700_000_000, 0)
	s, err := standardwebhooks.Sign("m", now, []byte("1700000001.x"), signingKey(t, newSecret))
	if err != nil {
		t.Fatal(err)
	}
	s.ID, s.Timestamp = "m.1700000000", "1700000001"
	if _, err := verifier(t, newSecret).Verify(headers(s), []byte("x"), now); !errors.Is(err, standardwebhooks.ErrID) {
		t.Errorf("the signature was moved to another id and body: %v", err)
	}
}

func TestNewVerifierRefusesToVerifyNothing(t *testing.T) {
	good := []standardwebhooks.VerifyingKey{verifyingKey(t, newSecret)}
	for name, try := range map[string]func() (*standardwebhooks.Verifier, error){
		"no keys": func() (*standardwebhooks.Verifier, error) {
			return standardwebhooks.NewVerifier(nil, time.Minute)
		},
		"a zero key": func() (*standardwebhooks.Verifier, error) {
			return standardwebhooks.NewVerifier(make([]standardwebhooks.VerifyingKey, 1), time.Minute)
		},
		"no tolerance": func() (*standardwebhooks.Verifier, error) {
			return standardwebhooks.NewVerifier(good, 0)
		},
		"an empty header name": func() (*standardwebhooks.Verifier, error) {
			return standardwebhooks.NewVerifier(good, time.Minute, standardwebhooks.HeaderNames{})
		},
	} {
		if _, err := try(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := standardwebhooks.Sign("m", time.Now(), nil); err == nil {
		t.Error("signed without a key")
	}
	if _, err := standardwebhooks.Sign("m", time.Now(), nil, standardwebhooks.SigningKey{}); err == nil {
		t.Error("signed with a zero key")
	}
}

func FuzzVerifyNeverAcceptsWhatWasNotSigned(f *testing.F) {
	now := time.Unix(1_700_000_000, 0)
	v := verifier(f, newSecret)
	good := sign(f, now, newSecret)
	// The genuine message, then pieces of it, then rubbish.
	f.Add(good.ID, good.Timestamp, good.Signature, body)
	f.Add(good.ID, "01700000000", good.Signature, body)
	f.Add("msg.1", good.Timestamp, good.Signature, body)
	f.Add("", "", "v1,", []byte(nil))
	f.Fuzz(func(t *testing.T, id, timestamp, signature string, b []byte) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signature}}
		if _, err := v.Verify(h, b, now); err == nil &&
			(id != good.ID || timestamp != good.Timestamp || string(b) != string(body)) {
			t.Errorf("accepted %q %q %q %q", id, timestamp, signature, b)
		}
	})
}
