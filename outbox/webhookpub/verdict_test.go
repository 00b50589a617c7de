package webhookpub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/webhookpub"
)

func TestTheStatusDecides(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]outbox.Verdict{
		200: outbox.Confirmed, 201: outbox.Confirmed, 202: outbox.Confirmed, 204: outbox.Confirmed, 299: outbox.Confirmed,
		300: outbox.RefusedOnce, 304: outbox.RefusedOnce, 400: outbox.RefusedOnce, 401: outbox.RefusedOnce, 403: outbox.RefusedOnce,
		404: outbox.RefusedOnce, 409: outbox.RefusedOnce, 413: outbox.RefusedOnce, 422: outbox.RefusedOnce, 600: outbox.RefusedOnce,
		408: outbox.Unreached, 429: outbox.Unreached, 500: outbox.RefusedOnce, 501: outbox.RefusedOnce, 502: outbox.Unreached, 503: outbox.Unreached, 504: outbox.Unreached, 599: outbox.RefusedOnce,
		410: outbox.RefusedForGood,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			p := publisher(t, []*receiver{receive(t, status(code))})
			err := one(t, p, event("a", "", "{}"))
			if got := outbox.VerdictOf(err); got != want {
				t.Errorf("%s (%v), want %s", got, err, want)
			}
			var answered *webhookpub.StatusError
			var gone *webhookpub.GoneError
			if errors.As(err, &gone) != (code == http.StatusGone) {
				t.Errorf("the error is %T", err)
			}
			if want != outbox.Confirmed && !errors.As(err, &gone) && (!errors.As(err, &answered) || answered.Status != code) {
				t.Errorf("the status is not in the error %v", err)
			}
		})
	}
}

func TestRedirectsAreNeverFollowed(t *testing.T) {
	t.Parallel()
	for _, code := range []int{301, 302, 303, 307, 308} {
		second := receive(t, nil)
		first := receive(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, second.URL, code) })
		p := publisher(t, []*receiver{first, second})
		expect(t, p.Publish(t.Context(), withTopic("a", 1)), outbox.RefusedOnce)
		if n := len(second.deliveries()); n != 0 {
			t.Errorf("%d was followed", code)
		}
	}
}

func TestAReceiverCanGiveUpAMessageOrTheWholeEndpoint(t *testing.T) {
	t.Parallel()
	var order string
	var code int
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("webhook-delivery", order)
		w.WriteHeader(code)
	})
	var last webhookpub.Attempt
	p := publisher(t, []*receiver{r}, webhookpub.WithObserver(func(_ context.Context, a webhookpub.Attempt) { last = a }))
	for _, c := range []struct {
		order   string
		code    int
		want    outbox.Verdict
		disable bool
	}{
		{"disable", 500, outbox.RefusedForGood, true},
		{"disable", 200, outbox.Confirmed, true},
		{"abort-message", 500, outbox.RefusedForGood, false},
		{"abort-message", 200, outbox.Confirmed, false},
		{"something", 500, outbox.RefusedOnce, false},
		{"", 410, outbox.RefusedForGood, true},
	} {
		order, code = c.order, c.code
		err := one(t, p, event("a", "", "{}"))
		var gone *webhookpub.GoneError
		if got := outbox.VerdictOf(err); got != c.want || last.Disable != c.disable || errors.As(err, &gone) != (c.disable && c.want != outbox.Confirmed) {
			t.Errorf("%s with %d: %s, disable %v (%v)", c.order, c.code, got, last.Disable, err)
		}
	}
}

func TestRetryAfterIsReadClampedAndPassedOn(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	const limit = 24 * time.Hour
	for _, c := range []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"120", 2 * time.Minute, true},
		{" 120 ", 2 * time.Minute, true},
		{"0", 0, true},
		{"-5", 0, true},
		{"86400", limit, true},
		{"86401", limit, true},
		{"9999999999", limit, true},
		{"99999999999999999999999999", limit, true},
		{"Sun, 29 Nov 2026 12:01:00 GMT", time.Minute, true},
		{"Sunday, 29-Nov-26 12:01:00 GMT", time.Minute, true},
		{"Sun, 29 Nov 2026 11:00:00 GMT", 0, true},
		{"Fri, 29 Nov 2999 12:00:00 GMT", limit, true},
		{"1.5", 0, false},
		{"+5", 0, false},
		{"1e3", 0, false},
		{"soon", 0, false},
		{"", 0, false},
		{"-", 0, false},
		{"5, 6", 0, false},
	} {
		if got, ok := webhookpub.RetryAfter(c.value, now, limit); got != c.want || ok != c.ok {
			t.Errorf("%q: %s, %v; want %s, %v", c.value, got, ok, c.want, c.ok)
		}
	}
	var code int
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
	})
	some, any := publisher(t, []*receiver{r}), publisher(t, []*receiver{r}, webhookpub.WithRetryAfterOnAnyFailure())
	for _, code = range []int{429, 503, 500, 404} {
		d, ok := outbox.RetryDelay(one(t, some, event("a", "", "{}")))
		if defined := code == 429 || code == 503; ok != defined || ok && d != 7*time.Second {
			t.Errorf("%d: %s, %v", code, d, ok)
		}
		if d, ok := outbox.RetryDelay(one(t, any, event("a", "", "{}"))); !ok || d != 7*time.Second {
			t.Errorf("%d, on any failure: %s, %v", code, d, ok)
		}
	}
}

func TestAnUnknownEndpointParksAndAFailedLookupDoesNot(t *testing.T) {
	t.Parallel()
	p := publisher(t, []*receiver{receive(t, nil)})
	expect(t, p.Publish(t.Context(), append(withTopic("nowhere", 1), withTopic("a", 1)...)), outbox.RefusedForGood, outbox.Confirmed)
	lookup := errors.New("database is down")
	p = newPublisher(t, func(context.Context, string) (webhookpub.Endpoint, error) { return webhookpub.Endpoint{}, lookup })
	err := one(t, p, event("a", "", "{}"))
	if outbox.VerdictOf(err) != outbox.Unreached || !errors.Is(err, lookup) {
		t.Errorf("errors: %v", err)
	}
}

func TestNothingOfTheURLsQueryIsInAnErrorOrAnAttempt(t *testing.T) {
	t.Parallel()
	r := receive(t, status(500))
	e := r.endpoint(t)
	e.RootCAs = r.roots()
	e.URL += "/hook?token=s3cret"
	var mu sync.Mutex
	var all []string
	observe := webhookpub.WithObserver(func(_ context.Context, a webhookpub.Attempt) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, fmt.Sprintf("%+v", a))
	})
	p := to(t, e, webhookpub.WithAllowPrivate(loopback), webhookpub.WithPorts(port(t, r.URL)), observe)
	all = append(all, fmt.Sprint(one(t, p, event("a", "", "{}"))))
	r.Close()
	all = append(all, fmt.Sprint(one(t, p, event("a", "", "{}"))))
	forbidden := to(t, e, observe)
	all = append(all, fmt.Sprint(one(t, forbidden, event("a", "", "{}"))))
	e.URL = "https://user:s3cret@example.com/"
	all = append(all, fmt.Sprint(one(t, to(t, e, observe), event("a", "", "{}"))))
	e.URL = "https://s3cret%zz"
	all = append(all, fmt.Sprint(one(t, to(t, e, observe), event("a", "", "{}"))))
	if len(all) != 10 {
		t.Fatalf("%d texts", len(all))
	}
	for _, s := range all {
		if strings.Contains(s, "s3cret") || strings.Contains(s, "AAECAw") {
			t.Errorf("shown: %s", s)
		}
	}
	if !strings.Contains(all[0]+all[1], "127.0.0.1") {
		t.Errorf("the address that was dialled is missing: %s", all[:2])
	}
}
