package webhooksub_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/semel-dev/semel/consumers/webhooksub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox/standardwebhooks"
)

func TestTheMessageIsWhatWasSentAndNothingThatWasNotVerified(t *testing.T) {
	t.Parallel()
	p := applying()
	key, err := standardwebhooks.ParseVerifyingKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	v, err := standardwebhooks.NewVerifier([]standardwebhooks.VerifyingKey{key}, time.Minute, standardwebhooks.Svix)
	if err != nil {
		t.Fatal(err)
	}
	h, err := webhooksub.New("payments", v, p)
	if err != nil {
		t.Fatal(err)
	}
	req := signed(t, serve(t, h), "msg_1", body, time.Now())
	for _, name := range []string{"id", "timestamp", "signature"} {
		req.Header.Set("svix-"+name, req.Header.Get("webhook-"+name))
		req.Header.Del("webhook-" + name)
	}
	req.Header.Set("Webhook-ID", "msg_forged")
	req.Header.Set("Authorization", "Bearer x")
	req.Header.Set("Cookie", "a=b")
	req.Header["X-MIXED-Case"] = []string{"2", "1"}
	if got := do(t, req); got.status != http.StatusOK {
		t.Fatalf("answer: %+v", got)
	}
	m := p.got[0]
	if m.Position != (dedup.Position{Broker: "webhook", Log: "payments"}) || m.Topic != "payment.captured" || m.Attempt != 1 {
		t.Errorf("message: %+v", m)
	}
	if string(m.Body) != body {
		t.Errorf("body: %q", m.Body)
	}
	var names []string
	for _, h := range m.Headers {
		names = append(names, h.Key)
		if strings.Contains(string(h.Value), "forged") {
			t.Errorf("%s is %q", h.Key, h.Value)
		}
	}
	if !slices.IsSorted(names) || slices.Contains(names, "authorization") || slices.Contains(names, "cookie") {
		t.Errorf("headers: %q", names)
	}
	if id, _ := m.Header("webhook-id"); string(id) != "msg_1" {
		t.Errorf("webhook-id is %q", id)
	}
	if v, _ := m.Header("x-mixed-case"); string(v) != "2" {
		t.Errorf("x-mixed-case is %q", v)
	}
}

func TestTheTypeIsReadFromTheBodyOrWhereTheOptionSays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"type":"a.b"}`:              "a.b",
		`{"TYPE":"c","type":"a.b"}`:   "a.b",
		`{"type":7}`:                  "",
		`{"type":null}`:               "",
		`{"data":{"type":"a.b"}}`:     "",
		`["type"]`:                    "",
		`type=a.b`:                    "",
		``:                            "",
		"{\"type\":\"a.b\"} trailing": "",
	} {
		p := applying()
		do(t, signed(t, serve(t, newHandler(t, "payments", p)), "msg_1", text, time.Now()))
		if got := p.got[0]; got.Topic != want || got.Body == nil {
			t.Errorf("%q: the type is %q, want %q; body %#v", text, got.Topic, want, got.Body)
		}
	}
	p := applying()
	h := newHandler(t, "payments", p, webhooksub.WithType(func(h http.Header, _ []byte) string { return h.Get("X-Event") }))
	req := signed(t, serve(t, h), "msg_1", body, time.Now())
	req.Header.Set("X-Event", "push")
	do(t, req)
	if got := p.got[0].Topic; got != "push" {
		t.Errorf("the type is %q", got)
	}
}

func TestWhateverIsWrongWithTheSignatureTheAnswerIsTheSame(t *testing.T) {
	t.Parallel()
	p := applying()
	url := serve(t, newHandler(t, "payments", p))
	now := time.Now()
	for name, change := range map[string]func(*http.Request){
		"no signature":      func(r *http.Request) { r.Header.Del("webhook-signature") },
		"no id":             func(r *http.Request) { r.Header.Del("webhook-id") },
		"no timestamp":      func(r *http.Request) { r.Header.Del("webhook-timestamp") },
		"another id":        func(r *http.Request) { r.Header.Set("webhook-id", "msg_2") },
		"an id with a stop": func(r *http.Request) { r.Header.Set("webhook-id", "msg.1") },
		"an old timestamp":  func(r *http.Request) { *r = *signed(t, url, "msg_1", body, now.Add(-time.Hour)) },
		"a future one":      func(r *http.Request) { *r = *signed(t, url, "msg_1", body, now.Add(time.Hour)) },
		"no such timestamp": func(r *http.Request) { r.Header.Set("webhook-timestamp", "+1") },
		"rubbish":           func(r *http.Request) { r.Header.Set("webhook-signature", "v1,AAAA") },
		"a thousand": func(r *http.Request) {
			r.Header.Set("webhook-signature", strings.Repeat("v1,AAAA ", 1000)+r.Header.Get("webhook-signature"))
		},
		"another body": func(r *http.Request) {
			r.Body, r.GetBody = io.NopCloser(strings.NewReader(strings.ReplaceAll(body, " ", "_"))), nil
		},
	} {
		req := signed(t, url, "msg_1", body, now)
		change(req)
		got := do(t, req)
		got.header.Del("Date")
		if got.status != http.StatusUnauthorized || got.body != "" || len(got.header) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if len(p.got) != 0 {
		t.Errorf("processed: %+v", p.got)
	}
}

func TestEveryLiveSecretVerifies(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{secret}, {secret, oldSecret}, {oldSecret, secret}} {
		v, err := webhooksub.Standard(keys...)
		if err != nil {
			t.Fatal(err)
		}
		h, err := webhooksub.New("payments", v, applying())
		if err != nil {
			t.Fatal(err)
		}
		if got := send(t, serve(t, h), "msg_1"); got.status != http.StatusOK {
			t.Errorf("%d keys: %+v", len(keys), got)
		}
	}
}

func TestOnlyPOSTIsTaken(t *testing.T) {
	t.Parallel()
	p := applying()
	url := serve(t, newHandler(t, "payments", p))
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		req := signed(t, url, "msg_1", body, time.Now())
		req.Method = method
		if got := do(t, req); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != http.MethodPost {
			t.Errorf("%s: %+v", method, got)
		}
	}
	if len(p.got) != 0 {
		t.Error("processed")
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{
		"no secret": {}, "an empty one": {""}, "a blank one": {" "}, "only the prefix": {"whsec_"}, "a short one": {"whsec_QQ=="},
		"one of two is empty": {secret, ""}, "a signature's prefix": {"v1,whsec_" + secret[6:]}, "a signing key": {"whsk_" + secret[6:]},
	} {
		if _, err := webhooksub.Standard(keys...); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	v, err := webhooksub.Standard(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"", " ", "a b", "a/b", "a\n", "ä", strings.Repeat("a", 101)} {
		if _, err := webhooksub.New(source, v, applying()); err == nil {
			t.Errorf("source %q: taken", source)
		}
	}
	if _, err := webhooksub.New("payments", nil, applying()); err == nil {
		t.Error("no verifier: taken")
	}
	if _, err := webhooksub.New("payments", v, nil); err == nil {
		t.Error("no processor: taken")
	}
	for name, o := range map[string]webhooksub.Option{
		"body": webhooksub.WithMaxBody(0), "read": webhooksub.WithReadLimit(0), "process": webhooksub.WithProcessLimit(0),
		"retry": webhooksub.WithRetryAfter(0), "type": webhooksub.WithType(nil), "log": webhooksub.WithLogger(nil), "observer": webhooksub.WithObserver(nil),
	} {
		if _, err := webhooksub.New("payments", v, applying(), o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestTheKeyIsForWebhooksAlone(t *testing.T) {
	t.Parallel()
	key := webhooksub.ID()
	id := []dedup.Header{{Key: "webhook-id", Value: []byte("msg_1")}}
	for name, m := range map[string]dedup.Message{
		"another broker": {Position: dedup.Position{Broker: "kafka", Log: "a"}, Headers: id},
		"no id":          {Position: dedup.Position{Broker: "webhook", Log: "a"}},
		"an empty id":    {Position: dedup.Position{Broker: "webhook", Log: "a"}, Headers: []dedup.Header{{Key: "webhook-id"}}},
	} {
		if _, err := key(m); !errors.Is(err, dedup.ErrNoKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	k, err := key(dedup.Message{Position: dedup.Position{Broker: "webhook", Log: "a"}, Headers: []dedup.Header{
		{Key: "webhook-id", Value: []byte("0192f4a0-5b7e-7c3a-9d2e-3f4a5b6c7d8e")},
	}})
	if at, ok := k.Stored().Time(); err != nil || !ok || at.UnixMilli() != 0x0192f4a05b7e {
		t.Errorf("the key of a UUIDv7 has the time %s, %v, error %v", at, ok, err)
	}
}
