package kafkasub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/semel-dev/semel/consumers"
)

const (
	leaveLimit = 5 * time.Second // for leaving the group
	dropLimit  = 2 * time.Second // for leaving it over a new connection
	closeLimit = time.Second     // for goroutines whose sockets have been cut
	restPause  = 100 * time.Millisecond
)

// brokerPace is the pace at which the brokers are asked again after an error.
var brokerPace = consumers.Policy{MaxAttempts: 1, MinDelay: 100 * time.Millisecond, MaxDelay: 10 * time.Second}

// fatal errors do not get better while the consumer starts; a person is needed.
var fatal = []error{
	kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
	kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism,
	kafka.InvalidTopic, kafka.InvalidGroupId, kafka.InvalidSessionTimeout, kafka.InconsistentGroupProtocol,
	kafka.UnsupportedVersion, kafka.MemberIDRequired, kafka.GroupMaxSizeReached,
}

// run is one call of Run.
type run struct {
	*Consumer
	ctx     context.Context // the caller's
	intake  context.Context // ends when no further handler may start
	stop    context.CancelFunc
	look    *lookup
	sockets *sockets       // of the group
	leaving chan struct{}  // closed when the group is being left
	missing atomic.Bool    // a topic was missing when the group was last looked at
	others  sync.WaitGroup // goroutines that nobody waits for before the end

	outcome sync.Mutex // for what follows
	failure error      // that made a lane stop the consumer
	unclean []error
	hung    []*lane // that were left behind
}

func newRun(c *Consumer, ctx context.Context) *run {
	r := &run{Consumer: c, ctx: ctx, look: newLookup(c.group), sockets: newSockets(), leaving: make(chan struct{})}
	r.sockets.detour = &detour{listed: c.group.Brokers, coordinator: true}
	r.intake, r.stop = context.WithCancel(ctx)
	return r
}

func (r *run) run() error {
	err := r.work()
	r.state.awaits(errEnded)
	r.stop()
	r.end()
	r.outcome.Lock()
	defer r.outcome.Unlock()
	return errors.Join(err, r.failure, r.leftUndone())
}

// fail stops the consumer; the first error is what Run returns.
func (r *run) fail(err error) {
	r.outcome.Lock()
	defer r.outcome.Unlock()
	if r.failure == nil {
		r.failure = err
	}
	r.stop()
}

// work returns nil when the intake has ended, and an error when nothing was ever begun.
func (r *run) work() error {
	r.state.awaits(errUnchecked)
	if err := r.check(); err != nil {
		return r.unlessEnded(err)
	}
	r.state.awaits(errUnreached)
	if err := r.try("reach the brokers", func() error { return r.look.checkTopics(r.intake) }); err != nil {
		return r.unlessEnded(fmt.Errorf("brokers %v: %w", r.group.Brokers, err))
	}
	if err := r.checkKeep(); err != nil {
		return r.unlessEnded(err)
	}
	r.state.awaits(errNotJoined)
	cfg := r.group
	cfg.Dialer = r.sockets.dialer(cfg.Dialer)
	group, err := kafka.NewConsumerGroup(cfg)
	if err != nil {
		return err
	}
	defer r.leave(group)
	err = r.try("join the group", func() error { return r.next(group) })
	if err != nil {
		return r.unlessEnded(fmt.Errorf("join: %w", err))
	}
	for restless := 0; r.intake.Err() == nil; {
		began := time.Now()
		if err := r.next(group); err != nil {
			if r.intake.Err() == nil {
				r.conf.log.Warn("group cannot be joined again; trying on", "error", err)
				r.state.away(err)
			}
			wait(r.intake, restPause) // and kafka-go itself pauses for JoinGroupBackoff
		} else if time.Since(began) < time.Second {
			r.rest(restless)
			restless++
		} else {
			restless = 0
		}
	}
	return nil
}

// rest comes between generations that are short, n of them so far. kafka-go begins the next one
// at once, and where a topic is missing, each one ends as soon as it has begun.
func (r *run) rest(n int) {
	if err := r.look.checkTopics(r.intake); err != nil && r.intake.Err() == nil {
		if errors.Is(err, kafka.UnknownTopicOrPartition) {
			r.missing.Store(true)
		}
		if n > 2 {
			r.conf.log.Warn("the group cannot settle", "error", err)
		}
	}
	wait(r.intake, min(time.Duration(n)*restPause, 50*restPause, r.group.SessionTimeout/3))
}

// try calls f until it succeeds, within the start limit.
func (r *run) try(what string, f func() error) error {
	began := time.Now()
	for n := 1; ; n++ {
		err := f()
		if err == nil || r.intake.Err() != nil {
			return err
		}
		for _, e := range fatal {
			if errors.Is(err, e) {
				return err
			}
		}
		if waited := time.Since(began); waited > r.conf.startLimit {
			return fmt.Errorf("%w (after %s)", err, waited.Round(time.Second))
		}
		r.conf.log.Warn("start: cannot "+what+" yet", "error", err)
		r.state.away(err)
		wait(r.intake, brokerPace.Delay(n))
	}
}

// unlessEnded: an error that comes from the caller's own cancellation is none.
func (r *run) unlessEnded(err error) error {
	if r.ctx.Err() != nil {
		return nil
	}
	return err
}

// next waits for the next generation of the group and returns when its work has ended.
func (r *run) next(group *kafka.ConsumerGroup) error {
	gen, err := group.Next(r.intake)
	if err != nil {
		return err
	}
	g := newGeneration(r, gen)
	gen.Start(g.work)
	<-g.done
	return nil
}

// leave leaves the group. A generation's work returns to kafka-go only when leaving has begun,
// or kafka-go would join the group once more in between.
func (r *run) leave(group *kafka.ConsumerGroup) {
	closed := make(chan struct{})
	r.background(func() {
		defer close(closed)
		_ = group.Close() // never returns an error
	})
	for {
		if _, err := group.Next(context.Background()); errors.Is(err, kafka.ErrGroupClosed) {
			break
		}
	}
	close(r.leaving)
	select {
	case <-closed:
		return
	case <-time.After(leaveLimit):
		// It may be waiting for the other members of a rebalance. It leaves over a new connection.
		r.sockets.drop()
	}
	select {
	case <-closed:
	case <-time.After(dropLimit):
		r.left(fmt.Errorf("the group could not be left within %s; its partitions are free after the session timeout, %s", leaveLimit+dropLimit, r.group.SessionTimeout))
	}
}

// end cuts every connection and waits for what still runs.
func (r *run) end() {
	r.sockets.cut()
	r.look.close()
	ended := make(chan struct{})
	go func() { r.others.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(closeLimit):
		r.left(errors.New("connections to the brokers could not be closed"))
	}
	r.own(nil)
}

func (r *run) leftUndone() error {
	for _, l := range r.hung {
		if !l.ended() {
			r.unclean = append(r.unclean, fmt.Errorf("what runs of %s from offset %d on ignores its cancelled context", l.partition.at, l.running.Load()))
		}
	}
	if len(r.unclean) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotClean, errors.Join(r.unclean...))
}

func (r *run) left(err error) {
	r.outcome.Lock()
	defer r.outcome.Unlock()
	r.unclean = append(r.unclean, err)
	r.conf.log.Warn("not clean", "error", err)
}

func (r *run) background(f func()) { r.others.Go(f) }
