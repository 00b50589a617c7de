package inbox

import (
	"sync"

	"github.com/semel-dev/semel/store"
)

// attempts remembers how often each message has failed in this process, so that its handler can
// be told. Nothing is decided by it: what counts is what the relay stores.
type attempts struct {
	mu     sync.Mutex
	failed map[store.ID]int
}

// mostRemembered bounds the memory. Messages that are parked, or worked on by another process
// from now on, are not heard of again.
const mostRemembered = 10_000

func (a *attempts) next(id store.ID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed[id] + 1
}

func (a *attempts) fail(id store.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = map[store.ID]int{}
	}
	if _, known := a.failed[id]; !known && len(a.failed) >= mostRemembered {
		for any := range a.failed {
			delete(a.failed, any)
			break
		}
	}
	a.failed[id]++
}

func (a *attempts) forget(id store.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failed, id)
}
