package kafkasub

import (
	"context"
	"time"

	"github.com/semel-dev/semel/dedup"
)

// queue holds what a lane has fetched and not settled.
type queue struct {
	items   []item
	at      int // of the front
	records int // items that are data
}

func (q *queue) push(it item) {
	if q.at > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.at:])
		clear(q.items[n:])
		q.items, q.at = q.items[:n], 0
	}
	if it.kind == data {
		q.records++
	}
	q.items = append(q.items, it)
}

func (q *queue) pop() {
	if q.front().kind == data {
		q.records--
	}
	*q.front() = item{} // lets the record go
	if q.at++; q.at == len(q.items) {
		q.items, q.at = q.items[:0], 0
	}
}

func (q *queue) front() *item  { return &q.items[q.at] }
func (q *queue) rest() []item  { return q.items[q.at:] }
func (q *queue) isEmpty() bool { return q.at == len(q.items) }

// fill waits until there is something to do and takes what else is there. It reports false
// when the intake has ended.
func (l *lane) fill(intake context.Context) bool {
	if l.queue.isEmpty() && !l.take(intake, nil) {
		return false
	}
	var full <-chan time.Time
	if l.conf.batch > 0 && l.conf.linger > 0 && l.head.failures == 0 {
		linger := time.NewTimer(l.conf.linger)
		defer linger.Stop()
		full = linger.C
	}
	for l.queue.records < l.limit {
		select {
		case it := <-l.feed.out:
			l.push(it)
			continue
		default:
		}
		if full == nil || !l.take(intake, full) {
			break
		}
	}
	return intake.Err() == nil
}

func (l *lane) take(intake context.Context, until <-chan time.Time) bool {
	select {
	case it := <-l.feed.out:
		l.push(it)
		return true
	case <-until:
		return false
	case <-intake.Done():
		return false
	}
}

func (l *lane) push(it item) {
	if it.end >= 0 {
		l.end.Store(it.end)
	}
	l.queue.push(it)
}

// pass moves over everything at the front of the queue that needs no handler, and says how far
// the partition is settled.
func (l *lane) pass() {
	for !l.queue.isEmpty() && l.queue.front().kind != data {
		switch it := l.queue.front(); it.kind {
		case marker:
			l.settled.Store(it.m.Position.Offset + 1)
		case started:
			l.commits.begin(l.at, it.start)
			l.settled.Store(it.start)
		case restarted:
			l.commits.restart(l.at, it.start)
			l.settled.Store(it.start)
		}
		l.queue.pop()
	}
	if next := l.settled.Load(); next >= 0 {
		l.commits.settled(l.at, next)
	}
}

// slice returns the records at the front that may be handled together. The first one is the head;
// while it fails it goes alone, so that nothing is run and rolled back along with it.
func (l *lane) slice() []dedup.Message {
	l.ms = l.ms[:0]
	rest := l.queue.rest()
	for i := range rest {
		it := &rest[i]
		if it.kind == marker {
			continue
		}
		if it.kind != data || len(l.ms) == l.limit || len(l.ms) == 1 && l.head.failures > 0 {
			break
		}
		if len(l.ms) == 0 {
			l.lead(&it.m)
		}
		l.ms = append(l.ms, it.m)
	}
	return l.ms
}

// lead makes m the head, with what is known of it.
func (l *lane) lead(m *dedup.Message) {
	p := m.Position
	if l.head.offset != p.Offset || !l.head.time.Equal(p.Time) {
		l.head = head{offset: p.Offset, time: p.Time}
	}
	m.Attempt = l.head.spent + 1
}

// settleHead takes the head off the queue, and with it the markers behind it.
func (l *lane) settleHead() {
	l.failures.Store(0)
	l.head = head{}
	for first := true; first || !l.queue.isEmpty() && l.queue.front().kind == marker; first = false {
		l.settled.Store(l.queue.front().m.Position.Offset + 1)
		l.queue.pop()
	}
}
