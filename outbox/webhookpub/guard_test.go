package webhookpub_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/outbox/webhookpub"
)

var errNotDialled = errors.New("the test connects to nothing")

// recorder notes what the guard has let through and keeps it from being connected to.
type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) dialled(_, address string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, address)
	return errNotDialled
}

func isForbidden(err error) bool {
	var f *webhookpub.ForbiddenError
	return errors.As(err, &f) && outbox.VerdictOf(err) == outbox.RefusedForGood
}

func TestOnlyPublicAddressesAreDialled(t *testing.T) {
	t.Parallel()
	for host, public := range map[string]bool{
		"127.0.0.1":              false, // loopback
		"127.9.9.9":              false,
		"0.0.0.0":                false, // this network
		"0.1.2.3":                false,
		"10.0.0.1":               false, // private
		"172.16.0.1":             false,
		"172.31.255.255":         false,
		"192.168.1.1":            false,
		"169.254.169.254":        false, // link-local, and what clouds put there
		"100.64.0.1":             false, // shared
		"100.100.100.200":        false,
		"192.0.0.192":            false, // protocol assignments
		"192.0.2.1":              false, // documentation
		"198.51.100.1":           false,
		"203.0.113.1":            false,
		"198.18.0.1":             false, // benchmarks
		"224.0.0.1":              false, // multicast
		"239.255.255.255":        false,
		"240.0.0.1":              false, // reserved
		"255.255.255.255":        false, // broadcast
		"168.63.129.16":          false, // public by its range
		"[::1]":                  false,
		"[::]":                   false,
		"[::127.0.0.1]":          false, // IPv4-compatible
		"[::ffff:127.0.0.1]":     false, // IPv4-mapped
		"[::ffff:10.0.0.1]":      false,
		"[64:ff9b::7f00:1]":      false, // NAT64
		"[64:ff9b:1::1]":         false,
		"[2002:7f00:1::]":        false, // 6to4
		"[2001:0:7f00:1::]":      false, // Teredo
		"[fe80::1]":              false,
		"[fe80::1%25lo]":         false,
		"[fec0::1]":              false, // site-local
		"[fc00::1]":              false,
		"[fd00:ec2::254]":        false,
		"[ff02::1]":              false,
		"[2001:db8::1]":          false,
		"[3fff::1]":              false,
		"93.184.216.34":          true,
		"1.1.1.1":                true,
		"[2606:4700:4700::1111]": true,
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			var r recorder
			p := to(t, webhookpub.Endpoint{URL: "https://" + host + "/hook", Secrets: secrets(t, secret)}, webhookpub.WithDialled(r.dialled))
			err := one(t, p, event("a", "", "{}"))
			switch {
			case public && (len(r.all) == 0 || !errors.Is(err, errNotDialled)):
				t.Errorf("a public address was not dialled: %v", err)
			case !public && len(r.all) > 0:
				t.Errorf("dialled %v", r.all)
			case !public && !isForbidden(err):
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestEveryAddressOfEveryAttemptIsJudgedWhateverTheNameResolvedToBefore(t *testing.T) {
	t.Parallel()
	public, private := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("127.0.0.1")
	var mu sync.Mutex
	answers := [][]netip.Addr{{public}, {public}, {private}, {public, private}, {public, private}}
	names := resolver(func(name string) []netip.Addr {
		mu.Lock()
		defer mu.Unlock()
		if name != "rebind.example" {
			return nil
		}
		a := answers[0]
		answers = answers[1:]
		return a
	})
	var r recorder
	e := webhookpub.Endpoint{URL: "https://rebind.example/hook", Secrets: secrets(t, secret)}
	p := to(t, e, webhookpub.WithDialled(r.dialled), webhookpub.WithResolver(names))
	if err := p.Check(t.Context(), e); err != nil {
		t.Errorf("at registration the name is public: %v", err)
	}
	if err := one(t, p, event("a", "", "{}")); outbox.VerdictOf(err) != outbox.Unreached {
		t.Errorf("while the name is public: %v", err)
	}
	if err := one(t, p, event("a", "", "{}")); !isForbidden(err) {
		t.Errorf("once it is loopback: %v", err)
	}
	if err := one(t, p, event("a", "", "{}")); err == nil {
		t.Error("public and loopback together: confirmed")
	}
	for _, address := range r.all {
		if address != "93.184.216.34:443" {
			t.Errorf("dialled %s", address)
		}
	}
	if len(r.all) != 2 {
		t.Errorf("dialled %v", r.all)
	}
	var f *webhookpub.ForbiddenError
	if err := p.Check(t.Context(), e); !errors.As(err, &f) {
		t.Errorf("registration with one address that is not allowed: %v", err)
	}
}

func TestURLsOfAnotherFormAreRefusedForGood(t *testing.T) {
	t.Parallel()
	for raw, says := range map[string]bool{
		"http://example.com/":          false,
		"ftp://example.com/":           false,
		"file:///etc/passwd":           false,
		"gopher://example.com/":        false,
		"//example.com/":               false,
		"example.com":                  false,
		"":                             false,
		"https://":                     false,
		"https:///path":                false,
		"https://user@example.com/":    false,
		"https://user:pw@example.com/": false,
		"https://example.com/#x":       false,
		"https://example.com:22/":      false,
		"https://example.com:8443/":    false,
		"https://example.com:0/":       false,
		"https://example.com:65979/":   false, // 443 in 16 bits
		"https://exa mple.com/":        false,
		"https://example.com/%zz":      false,
		"https://example.com/a?b=c":    true,
		"HTTPS://EXAMPLE.COM:443/":     true,
	} {
		var r recorder
		e := webhookpub.Endpoint{URL: raw, Secrets: secrets(t, secret)}
		p := to(t, e, webhookpub.WithDialled(r.dialled), webhookpub.WithResolver(resolver(func(string) []netip.Addr {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}
		})))
		err := one(t, p, event("a", "", "{}"))
		if good := errors.Is(err, errNotDialled); good != says || !good && !isForbidden(err) {
			t.Errorf("%q: %v", raw, err)
		}
		if err := p.Check(t.Context(), e); (err == nil) != says {
			t.Errorf("%q at registration: %v", raw, err)
		}
	}
}

func TestHTTPNeedsItsOption(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(status(200))
	t.Cleanup(plain.Close)
	e := webhookpub.Endpoint{URL: plain.URL, Secrets: secrets(t, secret)}
	opts := []webhookpub.Option{webhookpub.WithAllowPrivate(loopback), webhookpub.WithPorts(port(t, plain.URL))}
	if err := one(t, to(t, e, opts...), event("a", "", "{}")); !isForbidden(err) {
		t.Errorf("without the option: %v", err)
	}
	if err := one(t, to(t, e, append(opts, webhookpub.WithHTTP())...), event("a", "", "{}")); err != nil {
		t.Errorf("with the option: %v", err)
	}
}

// Not parallel: it changes the environment.
func TestAProxyOfTheEnvironmentIsIgnored(t *testing.T) {
	proxied := false
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied = true }))
	defer proxy.Close()
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	var r recorder
	e := webhookpub.Endpoint{URL: "https://93.184.216.34/", Secrets: secrets(t, secret)}
	p := to(t, e, webhookpub.WithDialled(r.dialled), webhookpub.WithAllowPrivate(loopback), webhookpub.WithPorts(443, port(t, proxy.URL)))
	if err := one(t, p, event("a", "", "{}")); !errors.Is(err, errNotDialled) {
		t.Errorf("the error is %v", err)
	}
	if proxied || len(r.all) != 1 || r.all[0] != "93.184.216.34:443" {
		t.Errorf("dialled %v, proxied %v", r.all, proxied)
	}
}
