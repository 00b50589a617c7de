package webhookpub

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"syscall"

	"code.dny.dev/ssrf"
)

// ForbiddenError is the error of an endpoint whose URL or address is not allowed. It is
// permanent: the endpoint's owner has to change it.
type ForbiddenError struct {
	// Reason says what is not allowed about it.
	Reason string
}

func (e *ForbiddenError) Error() string { return "not allowed: " + e.Reason }

// guard judges URLs and addresses.
type guard struct {
	ports []uint16
	http  bool
	ips   *ssrf.Guardian
}

// cloudAddresses are public by their range and private by their use: behind this one, every
// virtual machine of Azure finds its host.
var cloudAddresses = []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")}

func newGuard(c config) *guard {
	var v4, v6 []netip.Prefix
	for _, p := range c.allowed {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return &guard{ports: c.ports, http: c.http, ips: ssrf.New(
		ssrf.WithPorts(c.ports...),
		ssrf.WithAllowedV4Prefixes(v4...),
		ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV4Prefixes(cloudAddresses...),
	)}
}

// parse returns the URL if it is one that may be called. Its errors do not quote it.
func (g *guard) parse(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, &ForbiddenError{"the URL cannot be read"}
	}
	switch {
	case u.Scheme != "https" && !(u.Scheme == "http" && g.http):
		return nil, &ForbiddenError{fmt.Sprintf("the scheme %.20q: the URL begins with https://", u.Scheme)}
	case u.Hostname() == "":
		return nil, &ForbiddenError{"the URL has no host"}
	case u.User != nil:
		return nil, &ForbiddenError{"the URL has a user name or a password"}
	case u.Fragment != "" || u.RawFragment != "":
		return nil, &ForbiddenError{"the URL has a fragment"}
	}
	port, err := portOf(u)
	if err != nil || !slices.Contains(g.ports, port) {
		return nil, &ForbiddenError{fmt.Sprintf("the port %.10q: these are allowed: %v", u.Port(), g.ports)}
	}
	return u, nil
}

func portOf(u *url.URL) (uint16, error) {
	switch {
	case u.Port() != "":
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		return uint16(port), err
	case u.Scheme == "http":
		return 80, nil
	default:
		return 443, nil
	}
}

// control is called by the dialer with an address that is about to be connected to.
func (g *guard) control(network, address string, conn syscall.RawConn) error {
	return forbidden(g.ips.Safe(network, address, conn))
}

// address judges one address by itself.
func (g *guard) address(a netip.Addr) error { return forbidden(g.ips.SafeAddr(a)) }

func forbidden(err error) error {
	if err == nil {
		return nil
	}
	return &ForbiddenError{err.Error()}
}

func isForbidden(err error) bool {
	var f *ForbiddenError
	return errors.As(err, &f)
}
