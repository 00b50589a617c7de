package kafkasub

import (
	"errors"
	"slices"
	"sync"
)

var errNoAnswer = errors.New("the broker did not answer when it was asked last, and another one is left to ask")

// detour leads kafka-go around a broker that accepts connections and does not answer. It asks the first
// of several brokers that can be dialled, however often that is in vain; so the dial is refused where it
// was, as long as another broker of the list is left.
type detour struct {
	listed []string
	// coordinator says that two dials belong together, as the group makes them: one to a broker that
	// is listed, and one to whom that names as the coordinator, who is meant and no other.
	coordinator bool

	mu      sync.Mutex
	deaf    []string // of those that are listed
	refused bool     // the dial that comes next goes to the next one in the list
	named   bool     // the dial that comes next goes to the coordinator
}

// admits tells whether the address may be dialled.
func (d *detour) admits(addr string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.named || !slices.Contains(d.deaf, addr) {
		d.named = false
		return true
	}
	d.refused = true
	return false
}

// dialled says whether there is a connection. Where there is none, nobody is to be left out any more for
// the sake of this one.
func (d *detour) dialled(addr string, err error) {
	if err != nil {
		d.heard(addr, false)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused, d.named = false, d.refused && d.coordinator
}

// heard says whether a connection to the address has brought an answer.
func (d *detour) heard(addr string, answer bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = slices.DeleteFunc(d.deaf, func(a string) bool { return a == addr })
	if !answer && slices.Contains(d.listed, addr) {
		d.deaf = append(d.deaf, addr)
	}
	if !slices.ContainsFunc(d.listed, func(a string) bool { return !slices.Contains(d.deaf, a) }) {
		d.deaf = nil // there is nobody else to ask
	}
}
