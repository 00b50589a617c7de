package kafkasub

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// generation is the time between two rebalances, in which this member owns its partitions.
// It ends in order: no handler starts any more, those that run finish or are rolled back,
// the settled offsets are committed, and only then do the partitions go to their next owner.
type generation struct {
	*run
	gen     *kafka.Generation
	commits *commits
	done    chan struct{} // closed when the work has ended
}

func newGeneration(r *run, gen *kafka.Generation) *generation {
	return &generation{
		run: r, gen: gen, done: make(chan struct{}),
		commits: newCommits(gen.CommitOffsets, r.conf.commitEvery, r.background, r.conf.log),
	}
}

// work runs within kafka-go's Generation.Start: the group goes on to its next generation when
// it returns, and its context ends when the group wants to.
func (g *generation) work(ctx context.Context) {
	intake, stop := context.WithCancel(g.intake)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	handlers, cancel := context.WithCancel(context.WithoutCancel(g.ctx))
	defer cancel()

	lanes := g.lanes()
	g.own(lanes)
	g.conf.log.Info("partitions assigned", "generation", g.gen.ID, "member", g.gen.MemberID, "partitions", places(lanes))
	g.commits.start()
	var running sync.WaitGroup
	for _, l := range lanes {
		g.background(func() { l.feed.run(intake) })
		running.Go(func() {
			defer close(l.done)
			if err := l.run(intake, handlers); err != nil {
				g.fail(err)
			}
		})
	}

	if len(lanes) == 0 && g.missing.Load() {
		g.background(func() { g.distrust(intake, stop) })
	}

	<-intake.Done()
	g.drain(lanes, &running, cancel)
	final, cancelFinal := context.WithTimeout(context.Background(), commitLimit)
	defer cancelFinal()
	if err := g.commits.finish(final); err != nil {
		g.untidy(fmt.Errorf("the last offsets could not be committed: %w", err))
	}
	g.own(nil)
	close(g.done)
	if g.intake.Err() != nil {
		<-g.leaving
	}
}

// distrust ends a generation without partitions that may have been joined while a topic was
// missing. kafka-go assigns nothing then; and if the topic comes back before it begins to watch
// for changes, it sees none, and would be content with nothing for ever.
func (g *generation) distrust(intake context.Context, stop func()) {
	for g.look.checkTopics(intake) != nil {
		if !wait(intake, restPause) {
			return
		}
	}
	g.missing.Store(false)
	stop()
}

// drain waits for the lanes, cancels their handlers at the limit, and in the end goes on without
// those that ignore it: kept waiting, the group would take all partitions from this member.
func (g *generation) drain(lanes []*lane, running *sync.WaitGroup, cancel context.CancelFunc) {
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	limit := time.NewTimer(g.conf.drain)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
		for _, l := range lanes {
			if !l.ended() {
				g.untidy(fmt.Errorf("what runs of %s from offset %d on did not finish within %s and was cancelled", l.at, l.settled.Load(), g.conf.drain))
			}
		}
		cancel()
		select {
		case <-ended:
		case <-time.After(rollbackLimit):
		}
	}
	for _, l := range lanes {
		if l.ended() {
			g.remember(l.at, l.head)
			continue
		}
		g.conf.log.Error("a handler ignores its cancelled context; the partition is given up without it", "topic", l.at.topic, "partition", l.at.partition, "offset", l.settled.Load())
		g.outcome.Lock()
		g.hung = append(slices.DeleteFunc(g.hung, (*lane).ended), l)
		g.outcome.Unlock()
	}
}

// untidy is an error when the consumer ends, and a warning when it goes on.
func (g *generation) untidy(err error) {
	if g.intake.Err() != nil {
		g.left(err)
		return
	}
	g.conf.log.Warn("partitions are given up", "error", err)
}

func (g *generation) lanes() []*lane {
	var lanes []*lane
	for topic, assigned := range g.gen.Assignments {
		for _, a := range assigned {
			lanes = append(lanes, newLane(g, place{topic, a.ID}, a.Offset))
		}
	}
	return lanes
}

func places(lanes []*lane) []string {
	all := make([]string, len(lanes))
	for i, l := range lanes {
		switch l.feed.start {
		case kafka.FirstOffset:
			all[i] = fmt.Sprintf("%s@first", l.at)
		case kafka.LastOffset:
			all[i] = fmt.Sprintf("%s@last", l.at)
		default:
			all[i] = fmt.Sprintf("%s@%d", l.at, l.feed.start)
		}
	}
	return all
}
