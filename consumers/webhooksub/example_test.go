package webhooksub_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/semel-dev/semel/consumers/webhooksub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox/standardwebhooks"
	"github.com/semel-dev/semel/store/memstore"
)

// A webhook that comes three times moves the balance once.
func Example() {
	secret := standardwebhooks.NewSecret() // the provider shows it to you
	balances := memstore.New()             // pgstore in production

	guard, err := dedup.NewTx(balances, "billing", webhooksub.ID(), 30*24*time.Hour, func(ctx context.Context, tx *memstore.Tx, m dedup.Message) error {
		if m.Topic != "payment.captured" {
			return nil // a type that is not for us
		}
		_, err := tx.Add(ctx, "alice", 100)
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	verifier, err := webhooksub.Standard(secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	receiver, err := webhooksub.New("payment-provider", verifier, guard)
	if err != nil {
		fmt.Println(err)
		return
	}

	for range 3 {
		w := httptest.NewRecorder()
		receiver.ServeHTTP(w, webhook(secret, "msg_1", []byte(`{"type":"payment.captured"}`)))
		fmt.Println(w.Code, "duplicate:", w.Header().Get(webhooksub.HeaderDuplicate) == "true")
	}
	fmt.Println("alice has", balances.Get("alice"))
	// Output:
	// 200 duplicate: false
	// 200 duplicate: true
	// 200 duplicate: true
	// alice has 100
}

// webhook is what the provider sends.
func webhook(secret, id string, body []byte) *http.Request {
	key, _ := standardwebhooks.ParseSigningKey(secret)
	signed, _ := standardwebhooks.Sign(id, time.Now(), body, key)
	r := httptest.NewRequest(http.MethodPost, "/webhooks/payment-provider", bytes.NewReader(body))
	r.Header.Set("webhook-id", signed.ID)
	r.Header.Set("webhook-timestamp", signed.Timestamp)
	r.Header.Set("webhook-signature", signed.Signature)
	return r
}
