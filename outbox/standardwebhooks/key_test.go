package standardwebhooks_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/semel-dev/semel/outbox/standardwebhooks"
)

func TestAKeyThatCannotBeRightIsRefusedWithTheReason(t *testing.T) {
	b64 := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	cases := []struct{ name, key, says string }{
		{"empty", "", "empty"},
		{"blank", " \t", "empty"},
		{"only the prefix", "whsec_", "0 bytes"},
		{"one byte", "whsec_QQ==", "1 bytes"},
		{"23 bytes", "whsec_" + b64(23), "24 to 64"},
		{"65 bytes", "whsec_" + b64(65), "24 to 64"},
		{"the prefix of a signature", "v1,whsec_" + b64(32), "prefix of a signature"},
		{"the prefix of an asymmetric signature", "v1a,whpk_" + b64(32), "prefix of a signature"},
		{"no padding", "whsec_" + strings.TrimRight(b64(32), "="), "padding"},
		{"the alphabet for URLs", "whsec_" + strings.Repeat("-_", 16), "for URLs"},
		{"not base64", "whsec_" + strings.Repeat("!", 32), "not base64"},
		{"a line break", "whsec_" + b64(24) + "\n", "not base64"},
		{"no prefix", b64(32), "known prefix"},
		{"somebody else's prefix", "sk_live_" + b64(32), "known prefix"},
		{"a short seed", "whsk_" + b64(31), "31 bytes"},
		{"halves that do not match", "whsk_" + b64(64), "belong together"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := standardwebhooks.ParseSigningKey(c.key); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error %v does not say %q", err, c.says)
			} else if body := strings.TrimLeft(c.key, "v1a,whsec_kp"); len(body) > 8 && strings.Contains(err.Error(), body) {
				t.Errorf("the error quotes the key: %v", err)
			}
		})
	}
}

func TestSecretsOf24To64BytesAreTaken(t *testing.T) {
	for _, n := range []int{24, 32, 64} {
		key := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n))
		if _, err := standardwebhooks.ParseSigningKey(key); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		if _, err := standardwebhooks.ParseVerifyingKey(key); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if a, b := standardwebhooks.NewSecret(), standardwebhooks.NewSecret(); a == b {
		t.Error("two new secrets are equal")
	} else if _, err := standardwebhooks.ParseSigningKey(a); err != nil {
		t.Error(err)
	}
}

func TestEachHalfOfAKeyPairIsRefusedOnTheOtherSide(t *testing.T) {
	if _, err := standardwebhooks.ParseSigningKey(vectors[2].verifying); err == nil || !strings.Contains(err.Error(), "whsk_") {
		t.Errorf("a public key as a signing key: %v", err)
	}
	if _, err := standardwebhooks.ParseVerifyingKey(vectors[2].signing); err == nil || !strings.Contains(err.Error(), "whpk_") {
		t.Errorf("a private key as a verifying key: %v", err)
	}
}

func TestPrintingAKeyDoesNotShowIt(t *testing.T) {
	const secret = "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		out := fmt.Sprintf(verb, signingKey(t, secret)) + fmt.Sprintf(verb, []any{verifyingKey(t, secret)})
		if strings.Contains(out, "QUFB") || strings.Contains(out, "AAAA") || strings.Contains(out, "65 65 65") || strings.Contains(out, "4141") {
			t.Errorf("%s shows the key: %s", verb, out)
		}
	}
}
