package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/semel-dev/semel/consumers/inbox"
	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// Names of the environment with which the test starts itself as a process that dies.
const (
	childDSN    = "SEMEL_TEST_INBOX_DSN"
	childBroker = "SEMEL_TEST_INBOX_BROKER"
	// childDeath is where it dies, and childAfter the how-manieth time it is there.
	childDeath = "SEMEL_TEST_INBOX_DEATH"
	childAfter = "SEMEL_TEST_INBOX_AFTER"
)

// Where a process dies.
const (
	inKeep    = "before the commit of what is kept"
	afterKeep = "after the commit, before the acknowledgement"
	inWork    = "in the middle of the work"
	afterWork = "after the work's commit, before the relay notes it"
	ofPoison  = "of a message that kills"
)

func childMain() {
	dsn := os.Getenv(childDSN)
	if dsn == "" {
		return
	}
	// Should the test die, so does the child.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	after, _ := strconv.Atoi(os.Getenv(childAfter))
	fmt.Fprintln(os.Stderr, program(ctx, dsn, os.Getenv(childBroker), newDeath(os.Getenv(childDeath), after)))
	os.Exit(3)
}

// death kills its own process, without any chance to tidy up.
type death struct {
	point string
	left  atomic.Int64
}

func newDeath(point string, after int) *death {
	d := &death{point: point}
	d.left.Store(int64(after))
	return d
}

func (d *death) at(point string) {
	if point == d.point && d.left.Add(-1) <= 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}

// program is a whole one: a consumer, an inbox and the work.
func program(ctx context.Context, dsn, broker string, d *death) error {
	pool, err := pgxpool.New(ctx, dsn+poolSize)
	if err != nil {
		return err
	}
	defer pool.Close()
	box, err := pgstore.New(pool, pgstore.WithSchema("semel_inbox"))
	if err != nil {
		return err
	}
	s, err := pgstore.New(pool)
	if err != nil {
		return err
	}
	work, err := dedup.NewTx(s, "orders", dedup.FromCoordinates(), dedup.Forever, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if err := effect(ctx, tx, m); err != nil {
			return err
		}
		if string(m.Body) == "poison" {
			d.at(ofPoison)
		}
		d.at(inWork)
		return nil
	})
	if err != nil {
		return err
	}
	in, err := inbox.New(mortalBox{box, d}, "orders", dedup.FromCoordinates(), dedup.Forever, mortalWork{work, d},
		fast(outbox.WithLease(time.Second)))
	if err != nil {
		return err
	}
	c, err := kafkasub.New(groupConfig(broker), mortalIntake{in.Intake(), d}, kafkasub.WithBatch(8, 10*time.Millisecond),
		kafkasub.WithCommitInterval(20*time.Millisecond))
	if err != nil {
		return err
	}
	return together(ctx, c, member{in, c})
}

// member does the work once its process has a partition. A member that dies while it joins is
// never missed by the broker of these tests, and its partitions would have no other owner.
type member struct {
	runner
	c *kafkasub.Consumer
}

func (m member) Run(ctx context.Context) error {
	for len(m.c.Assigned()) == 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return m.runner.Run(ctx)
}

// together runs several things until one of them ends.
func together(ctx context.Context, all ...runner) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error)
	for _, r := range all {
		go func() { ended <- r.Run(ctx) }()
	}
	var errs []error
	for range all {
		errs = append(errs, <-ended)
		cancel()
	}
	return errors.Join(errs...)
}

type mortalBox struct {
	*pgstore.Store
	*death
}

func (b mortalBox) AppendTx(ctx context.Context, tx pgx.Tx, events []store.Event) error {
	err := b.Store.AppendTx(ctx, tx, events)
	b.at(inKeep)
	return err
}

type mortalIntake struct {
	*dedup.TxGuard[pgx.Tx]
	*death
}

func (i mortalIntake) ProcessBatch(ctx context.Context, ms []dedup.Message) []dedup.Result {
	r := i.TxGuard.ProcessBatch(ctx, ms)
	i.at(afterKeep)
	return r
}

type mortalWork struct {
	*dedup.TxGuard[pgx.Tx]
	*death
}

func (w mortalWork) Process(ctx context.Context, m dedup.Message) dedup.Result {
	r := w.TxGuard.Process(ctx, m)
	w.at(afterWork)
	return r
}

func groupConfig(broker string) kafka.ConsumerGroupConfig {
	return kafka.ConsumerGroupConfig{
		ID: "billing", Brokers: []string{broker}, Topics: []string{topic},
		HeartbeatInterval: 100 * time.Millisecond, SessionTimeout: session, RebalanceTimeout: session,
		JoinGroupBackoff: 100 * time.Millisecond,
	}
}

// die runs the program in a process of its own until it dies of its own hand, or until enough is true.
func (w *world) die(broker, point string, after int, enough func() bool) (died bool) {
	w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDSN+"="+w.dsn, childBroker+"="+broker, childDeath+"="+point, childAfter+"="+strconv.Itoa(after))
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	limit := time.After(soon)
	for {
		select {
		case <-ended:
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				w.t.Fatalf("the child ended by itself: %s", out.String())
			}
			return true
		case <-limit:
			_ = cmd.Process.Kill()
			<-ended
			w.t.Fatalf("the child did not die within %s: %s", soon, out.String())
		case <-time.After(20 * time.Millisecond):
			if enough() {
				_ = cmd.Process.Kill()
				<-ended
				return false
			}
		}
	}
}

func never() bool { return false }

// Wherever a process is killed, each message has its effect once, in the order of its key.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range []string{inKeep, afterKeep, inWork, afterWork} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := servertest.Kfake(t, kfake.SeedTopics(2, topic), kfake.GroupMinSessionTimeout(time.Second))
			const keys, each = 6, 20
			for i := range each {
				for k := range keys {
					produce(t, b, int32(k%2), fmt.Sprint("k", k), fmt.Sprint(i))
				}
			}
			for round := range 2 {
				if !w.die(b.Brokers()[0], point, 3+round, never) {
					t.Fatal("it did not die")
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- program(ctx, w.dsn, b.Brokers()[0], newDeath("", 0)) }()
			eventually(t, "everything is consumed and done", func() bool {
				return w.count("select count(*) from effects") >= keys*each && w.left() == 0
			})
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			for k := range keys {
				w.want(fmt.Sprint("k", k), numbered(each)...)
			}
		})
	}
}

// A message that kills whoever works on it is found out and parked; everything else is done.
func TestAMessageThatKillsItsWorkersIsParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := servertest.Kfake(t, kfake.SeedTopics(2, topic), kfake.GroupMinSessionTimeout(time.Second))
	for i := range 10 {
		for k := range 4 {
			produce(t, b, int32(k%2), fmt.Sprint("k", k), fmt.Sprint(i))
		}
	}
	produce(t, b, 0, "bad", "poison")
	produce(t, b, 0, "bad", "behind")
	parked := func() bool { return w.waiting(store.Parked) > 0 }
	deaths := 0
	for !parked() {
		if w.die(b.Brokers()[0], ofPoison, 1, parked) {
			deaths++
		}
		if deaths > 8 {
			t.Fatal("workers die one after another")
		}
	}
	t.Logf("%d workers died", deaths)
	if deaths < 2 {
		t.Errorf("it was parked after %d deaths: that may have been anything", deaths)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- program(ctx, w.dsn, b.Brokers()[0], newDeath("", 0)) }()
	defer func() { cancel(); <-ended }()
	eventually(t, "only the cause and what is behind it are left", func() bool {
		return w.count("select count(*) from effects") == 40 && w.left() == 2
	})
	list, err := w.box.ListWaiting(t.Context(), store.WaitingFilter{State: store.Parked}, 0, 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("%v (%v)", list, err)
	}
	if m, err := inbox.Message(list[0].Event); err != nil || string(m.Body) != "poison" || list[0].Reason == "" {
		t.Errorf("%q is parked because of %q (%v)", m.Body, list[0].Reason, err)
	}
	if n, err := w.box.DiscardParked(t.Context(), store.WaitingFilter{Key: []byte("bad")}, 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.empty()
	w.want("bad", "behind")
	for k := range 4 {
		w.want(fmt.Sprint("k", k), numbered(10)...)
	}
}
