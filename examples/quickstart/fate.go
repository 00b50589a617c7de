package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// fate is what becomes of a webhook request in this story.
type fate string

const (
	answered fate = "answered"
	refused  fate = "refused" // 500, and nothing was done
	hung     fate = "hung"    // no answer until the sender gave up; then the work was done
	dropped  fate = "dropped" // the work was done and the connection closed without an answer
)

// cruel stands in front of a webhook handler and does to it what happens to webhooks.
type cruel struct {
	next     http.Handler
	reporter *reporter
	mu       sync.Mutex
	random   *rand.Rand
}

func newCruel(next http.Handler, seed uint64, r *reporter) *cruel {
	return &cruel{next: next, reporter: r, random: rand.New(rand.NewPCG(seed, 2))}
}

func (c *cruel) draw() fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n := c.random.IntN(100); {
	case n < 4:
		return refused
	case n < 5:
		return hung
	case n < 11:
		return dropped
	default:
		return answered
	}
}

func (c *cruel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := c.draw()
	_ = c.reporter.tell(report{Attempt: f}) // If nobody listens, this process is about to end.
	switch f {
	case refused:
		http.Error(w, "not today", http.StatusInternalServerError)
	case hung:
		body, err := io.ReadAll(r.Body) // The server notices that the sender is gone only after that.
		if err != nil {
			return
		}
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		c.next.ServeHTTP(nowhere{}, r)
	case dropped:
		c.next.ServeHTTP(nowhere{}, r)
		panic(http.ErrAbortHandler) // Closes the connection.
	default:
		c.next.ServeHTTP(w, r)
	}
}

// nowhere is where an answer goes that nobody gets.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
