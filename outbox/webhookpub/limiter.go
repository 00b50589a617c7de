package webhookpub

import (
	"context"
	"sync"
)

// limiter bounds attempts in all and to each endpoint.
type limiter struct {
	all         chan struct{}
	perEndpoint int

	mu     sync.Mutex
	queues map[string]*queue // Those that somebody holds or waits for.
}

type queue struct {
	slots chan struct{}
	users int
}

func newLimiter(all, perEndpoint int) *limiter {
	return &limiter{all: make(chan struct{}, all), perEndpoint: perEndpoint, queues: make(map[string]*queue)}
}

// acquire waits for a slot and returns what gives it back, or nil when ctx ended first. The
// endpoint's slot comes first, so that attempts that wait for a slow endpoint hold
// nothing of what others need.
func (l *limiter) acquire(ctx context.Context, topic string) (release func()) {
	q := l.enter(topic)
	select {
	case q.slots <- struct{}{}:
	case <-ctx.Done():
		l.leave(topic, q)
		return nil
	}
	select {
	case l.all <- struct{}{}:
	case <-ctx.Done():
		<-q.slots
		l.leave(topic, q)
		return nil
	}
	return func() {
		<-l.all
		<-q.slots
		l.leave(topic, q)
	}
}

func (l *limiter) enter(topic string) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[topic]
	if q == nil {
		q = &queue{slots: make(chan struct{}, l.perEndpoint)}
		l.queues[topic] = q
	}
	q.users++
	return q
}

func (l *limiter) leave(topic string, q *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(l.queues, topic)
	}
}
