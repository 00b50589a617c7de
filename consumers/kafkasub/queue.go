package kafkasub

import (
	"context"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// queue holds messages in their order, and the numbers under which the tracker knows them.
type queue struct {
	ms      []dedup.Message
	numbers []uint64
	at      int // of the front
}

func (q *queue) len() int              { return len(q.ms) - q.at }
func (q *queue) front() *dedup.Message { return &q.ms[q.at] }

func (q *queue) push(m *dedup.Message, number uint64) {
	q.ms = append(q.ms, *m)
	q.numbers = append(q.numbers, number)
}

// pop takes the first n off and returns their numbers, which are good until the next push.
func (q *queue) pop(n int) (numbers []uint64) {
	numbers = q.numbers[q.at : q.at+n]
	clear(q.ms[q.at : q.at+n]) // lets the records go
	if q.at += n; q.at == len(q.ms) {
		q.ms, q.numbers, q.at = q.ms[:0], q.numbers[:0], 0
	}
	return numbers
}

// takeAll moves what the other one holds behind what this one holds.
func (q *queue) takeAll(from *queue) {
	if q.len() == 0 {
		*q, *from = *from, *q
		return
	}
	if q.at > 0 {
		n := copy(q.ms, q.ms[q.at:])
		clear(q.ms[n:])
		q.ms, q.numbers, q.at = q.ms[:n], q.numbers[:copy(q.numbers, q.numbers[q.at:])], 0
	}
	q.ms = append(q.ms, from.ms[from.at:]...)
	q.numbers = append(q.numbers, from.numbers[from.at:]...)
	from.pop(from.len())
}

// post is called with the partition's lock held. It reports whether the lane is to be roused.
func (l *lane) post(m *dedup.Message, number uint64) (rouse bool) {
	l.unsettled++
	l.inbox.push(m, number)
	return l.awaited > 0 && l.inbox.len() >= l.awaited
}

func (l *lane) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// fill waits until there is something to do and takes what else is there. It reports false
// when the intake has ended.
func (l *lane) fill(intake context.Context) bool {
	if l.queue.len() >= l.limit || l.queue.len() > 0 && l.head.failures > 0 {
		return intake.Err() == nil
	}
	var lingered <-chan time.Time
	for enough := false; ; {
		l.partition.mu.Lock()
		l.awaited = 0
		if l.inbox.len() > 0 && l.queue.len() < l.limit {
			l.queue.takeAll(&l.inbox)
		}
		switch have := l.queue.len(); {
		case have == 0:
			l.awaited = 1
		case have < l.limit && l.lingers() && !enough && !l.partition.full:
			l.awaited = l.limit - have
		}
		awaited := l.awaited
		l.partition.mu.Unlock()
		if awaited == 0 {
			return intake.Err() == nil
		}
		if lingered == nil && l.queue.len() > 0 {
			linger := time.NewTimer(l.conf.linger)
			defer linger.Stop()
			lingered = linger.C
		}
		select {
		case <-l.wake:
		case <-lingered:
			enough = true
		case <-intake.Done():
			return false
		}
	}
}

// lingers says that a batch that is not full waits for more. What is behind a message that fails
// does not matter: that one goes alone.
func (l *lane) lingers() bool {
	return l.conf.batch > 0 && l.conf.linger > 0 && l.head.failures == 0
}

// slice returns the messages at the front that may be handled together. The first one is the head;
// while it fails it goes alone, so that nothing is run and rolled back along with it.
func (l *lane) slice() []dedup.Message {
	l.lead()
	n := min(l.queue.len(), l.limit)
	if l.head.failures > 0 {
		n = 1
	}
	return l.queue.ms[l.queue.at : l.queue.at+n : l.queue.at+n]
}
