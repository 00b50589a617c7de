package kafkapub

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/outbox"
)

// write writes items of one topic and settles them all. Broker and Writer refuse everything
// together for the sake of one bad record, and the broker does not say which, so what
// was refused that way is halved until the bad ones are alone.
func (p *Publisher) write(items []*item) {
	items = p.sendable(items)
	if len(items) == 0 {
		return
	}
	msgs := make([]kafka.Message, len(items))
	for i, it := range items {
		msgs[i] = it.msg
	}
	// Not the caller's context: ending it would make WriteMessages return while the
	// Writer goes on, and the next chunk could then share a batch with this one.
	err := p.w.WriteMessages(context.Background(), msgs...)
	of := func(int) error { return err }
	if each := (kafka.WriteErrors)(nil); errors.As(err, &each) && len(each) == len(items) {
		of = func(i int) error { return each[i] }
	}
	var suspects []*item
	if len(items) > 1 {
		for i, it := range items {
			if faulty(of(i)) {
				suspects = append(suspects, it)
			}
		}
	}
	p.settle(items, func(i int) error {
		if len(items) > 1 && faulty(of(i)) {
			return errAgain
		}
		return wrap(items[i], of(i))
	})
	half := (len(suspects) + 1) / 2
	p.write(suspects[:half])
	p.write(suspects[half:])
}

// errAgain stays inside: the item is not settled yet.
var errAgain = errors.New("again")

func (p *Publisher) settle(items []*item, result func(i int) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, it := range items {
		if err := result(i); err != errAgain { //nolint:errorlint // It is never wrapped.
			it.settle(err)
		}
	}
}

// sendable leaves out what is settled, and settles what must not be sent any more: the call
// has ended, or an earlier event of the key was not confirmed.
func (p *Publisher) sendable(items []*item) []*item {
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []*item
	for _, it := range items {
		switch {
		case it.settled:
		case it.call.ended, it.keyed && it.call.failed[it.key]:
			it.settle(outbox.ErrNotSent)
		default:
			left = append(left, it)
		}
	}
	return left
}

// faulty tells an error that is about the records themselves. None of the batch has been
// stored.
func faulty(err error) bool {
	for _, code := range []kafka.Error{
		kafka.MessageSizeTooLarge, // The record, or all of them together. kafka.MessageTooLargeError wraps it.
		kafka.RecordListTooLarge,
		kafka.InvalidRecord, // No key on a compacted topic, for instance.
		kafka.InvalidTimestamp,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

func wrap(it *item, err error) error {
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("kafkapub: write event %s to %s: %w", it.id, it.msg.Topic, err)
	if faulty(err) || errors.Is(err, kafka.InvalidTopic) {
		return outbox.Permanent(wrapped)
	}
	// A topic that is missing or closed to us is for a person to mend, and the event is
	// fine. Whatever else it is, the record may have been stored.
	return wrapped
}
