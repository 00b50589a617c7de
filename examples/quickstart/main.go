// Quickstart shows what Semel is for, on real servers and with real crashes.
//
//	go run ./examples/quickstart
//
// Thousands of payments come in on Kafka and on NATS, a third of the messages being copies:
// delivered again, produced twice, sent over both brokers at the same time. A worker adds
// each payment to the balance of its account and writes a receipt, which leaves through the
// outbox by webhook, Kafka or NATS for somebody else's application. Worker and relay are
// killed with SIGKILL in the middle of it, several times, and the webhook receiver fails,
// hangs, and drops its answers after it has committed. In the end every effect is counted.
//
// It needs nothing but Go. PostgreSQL, NATS and Kafka are taken from DATABASE_URL, NATS_URL
// and KAFKA_BROKERS where those are set. Otherwise it starts PostgreSQL (the machine's own, or
// one that is fetched once), and embeds a NATS server with JetStream and a broker that
// speaks Kafka's protocol.
//
// With --naive the same story is told with an ordinary consumer in the place of Semel's, which
// commits before it acknowledges and does everything right but one thing.
//
// Begin to read in worker.go: it is what a program with Semel looks like.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	c := config{}
	flag.BoolVar(&c.Naive, "naive", false, "tell the same story without Semel")
	flag.IntVar(&c.Payments, "payments", 6000, "how many `payments` there are")
	flag.IntVar(&c.Kills, "kills", 4, "how `often` worker and relay are killed, each of them")
	flag.Uint64Var(&c.Seed, "seed", rand.Uint64N(1e6), "what is random follows from this `number`")
	flag.Parse()
	if err := c.check(); err != nil || flag.NArg() > 0 {
		if flag.NArg() > 0 {
			err = fmt.Errorf("there are flags and no arguments: %s", flag.Arg(0))
		}
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(2)
	}
	os.Exit(tellStory(c))
}

// tellStory runs the story and returns the exit status. The first Ctrl-C cleans up, a second one does
// not wait for that.
func tellStory(c config) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		by := <-signals
		fmt.Fprintln(os.Stderr, "\nquickstart: interrupted, cleaning up")
		cancel(interrupted{by})
		// Whatever runs this program may pass a signal on that came from the terminal already:
		// one that comes right behind the first is not a second one.
		time.Sleep(time.Second)
		signal.Stop(signals)
	}()
	sum, err := run(ctx, c, os.Stdout)
	stopped, ok := errors.AsType[interrupted](context.Cause(ctx))
	switch {
	case ok:
		if errors.Is(err, errCleanup) {
			fmt.Fprintln(os.Stderr, "quickstart:", err)
		}
		return stopped.status()
	case err != nil:
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		return 1
	case !sum.right():
		return 1
	}
	return 0
}

type interrupted struct{ by os.Signal }

func (i interrupted) Error() string { return i.by.String() }

// status is what a shell expects: 130 after Ctrl-C, 143 after SIGTERM.
func (i interrupted) status() int {
	if s, ok := i.by.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return 130
}

const (
	roleWorker   = "worker"
	roleRelay    = "relay"
	roleReceiver = "receiver"
)

// play is the main function of the other processes.
func play(role string) int {
	// A terminal's Ctrl-C reaches all processes at once; the first one decides.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	ctx := obey(os.Stdin)
	s, err := stageFromEnviron()
	if err == nil {
		parts := map[string]func(context.Context, stage, *reporter) error{
			roleWorker: worker, roleRelay: relay, roleReceiver: receiver,
		}
		err = parts[role](ctx, s, &reporter{to: os.Stdout})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "quickstart: %s: %v\n", role, err)
		return 1
	}
	return 0
}
