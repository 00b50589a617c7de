package kafkasub

import (
	"context"
	"fmt"
	"iter"
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
	// alone holds the one message that runs under suspicion. It is not the consumer's, or a handler
	// that hangs and was left behind would hold it for ever.
	alone chan struct{}
}

func newGeneration(r *run, gen *kafka.Generation) *generation {
	return &generation{
		run: r, gen: gen, done: make(chan struct{}), alone: make(chan struct{}, 1),
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

	partitions := g.partitions()
	g.own(partitions)
	g.conf.log.Info("partitions assigned", "generation", g.gen.ID, "member", g.gen.MemberID, "partitions", places(partitions))
	g.commits.start()
	var running sync.WaitGroup
	for _, p := range partitions {
		g.background(func() { p.feed.run(intake) })
		for _, l := range p.lanes {
			running.Go(func() {
				defer close(l.done)
				if err := l.run(intake, handlers); err != nil {
					g.fail(err)
				}
			})
		}
	}

	if len(partitions) == 0 && g.missing.Load() {
		g.state.away(errTopicMissing)
		g.background(func() { g.distrust(intake, stop) })
	} else {
		g.state.joined()
	}

	<-intake.Done()
	g.state.away(nil)
	g.conf.log.Info("giving the partitions up", "generation", g.gen.ID)
	g.drain(partitions, &running, cancel)
	final, cancelFinal := context.WithTimeout(context.Background(), commitLimit)
	defer cancelFinal()
	left := make(chan struct{})
	g.background(func() {
		defer close(left)
		leave(final, partitions)
	})
	if err := g.commits.finish(final); err != nil {
		g.untidy(fmt.Errorf("the last offsets could not be committed: %w", err))
	}
	select {
	case <-left:
	case <-final.Done():
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
func (g *generation) drain(partitions []*partition, running *sync.WaitGroup, cancel context.CancelFunc) {
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	limit := time.NewTimer(g.conf.drain)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
		for l := range unended(partitions) {
			g.untidy(fmt.Errorf("what runs of %s from offset %d on did not finish within %s and was cancelled", l.partition.at, l.running.Load(), g.conf.drain))
		}
		cancel()
		select {
		case <-ended:
		case <-time.After(rollbackLimit):
		}
	}
	for l := range unended(partitions) {
		l.log.Error("a handler ignores its cancelled context; the partition is given up without it", "offset", l.running.Load())
		g.outcome.Lock()
		g.hung = append(slices.DeleteFunc(g.hung, (*lane).ended), l)
		g.outcome.Unlock()
	}
	for _, p := range partitions {
		g.remember(p.at, p.keepsake())
	}
}

func unended(partitions []*partition) iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		for _, p := range partitions {
			for _, l := range p.lanes {
				if !l.ended() && !yield(l) {
					return
				}
			}
		}
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

func (g *generation) partitions() []*partition {
	var all []*partition
	for topic, assigned := range g.gen.Assignments {
		for _, a := range assigned {
			all = append(all, newPartition(g, place{topic, a.ID}, a.Offset))
		}
	}
	return all
}

func places(partitions []*partition) []string {
	all := make([]string, len(partitions))
	for i, p := range partitions {
		switch p.feed.start {
		case kafka.FirstOffset:
			all[i] = fmt.Sprintf("%s@first", p.at)
		case kafka.LastOffset:
			all[i] = fmt.Sprintf("%s@last", p.at)
		default:
			all[i] = fmt.Sprintf("%s@%d", p.at, p.feed.start)
		}
	}
	return all
}
