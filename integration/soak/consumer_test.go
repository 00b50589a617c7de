//go:build unix

package soak

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/consumers"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store/pgstore"
)

// Limits of the children. They are short, so that a frozen network outlasts them.
const (
	lockWait    = time.Second
	commitLimit = 3 * time.Second
	marksKept   = 30 * 24 * time.Hour
)

// policy tries everything again soon. Ten attempts are the message's own; on NATS that is also how
// often a message may vanish with its process before it is suspected of having ended it.
var policy = consumers.Policy{MaxAttempts: 10, MinDelay: 5 * time.Millisecond, MaxDelay: 100 * time.Millisecond}

// client is a broker as the children see it.
type client interface {
	consume(ctx context.Context, p dedup.Processor, log *slog.Logger) error
	publisher() (outbox.Publisher, error)
}

// run is a whole process, as a user would write it. A byte on its standard input asks it to end in good
// order, and waits there for a process that has only begun, which SIGTERM would kill. The end of the input
// is that of its parent, and ends it at once.
func (o orders) run() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		for {
			if n, _ := os.Stdin.Read(make([]byte, 1)); n == 0 {
				os.Exit(exitOrphan)
			}
			stop()
		}
	}()
	if o.Role == "nats-server" {
		return o.serveNATS(ctx)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := o.client()
	if err != nil {
		return err
	}
	pool, err := o.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	var opts []pgstore.Option
	if o.Mode == together {
		opts = append(opts, pgstore.WithIsolation(pgx.RepeatableRead))
	}
	s, err := pgstore.New(pool, append(opts, pgstore.WithLockWait(lockWait))...)
	if err != nil {
		return err
	}
	if o.Role == "relay" {
		return o.relay(ctx, s, c, log)
	}
	return o.consume(ctx, s, pool, c, log)
}

// pool has a connection for every lane, and gives up on a server that does not answer.
func (o orders) pool(ctx context.Context) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(o.DSN)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.ConnConfig.ConnectTimeout = 3*lanes, 3*time.Second
	cfg.ConnConfig.RuntimeParams["application_name"] = o.application()
	if o.Group != "" {
		cfg.ConnConfig.RuntimeParams["search_path"] = o.Group
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// application is by what the database tells processes apart.
func (o orders) application() string { return o.Group + " " + string(o.Mode) }

func (o orders) client() (client, error) {
	switch o.Broker {
	case "kafka":
		return newKafkaClient(o), nil
	case "nats":
		return newNATSClient(o)
	default:
		return nil, fmt.Errorf("no broker %q", o.Broker)
	}
}

func (o orders) relay(ctx context.Context, s *pgstore.Store, c client, log *slog.Logger) error {
	p, err := c.publisher()
	if err != nil {
		return err
	}
	r, err := outbox.NewRelay(s, map[string]outbox.Publisher{"receipts": p}, outbox.WithLogger(log), outbox.WithName(o.Name),
		outbox.WithPoll(100*time.Millisecond), outbox.WithLease(2*time.Second),
		outbox.WithProbe(50*time.Millisecond, 500*time.Millisecond), outbox.WithPublishTimeout(5*time.Second), outbox.WithDrain(2*time.Second))
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// batches says whether the consumer hands over batches.
func (m mode) batches() bool { return m == batched || m == together }

// recording writes down what a guard answers. It is the guard in all other things that consumers ask for.
type recording struct {
	*dedup.TxGuard[pgx.Tx]
	journal journal
	handler bool // its handler writes nothing down itself
}

// handling writes down what the handler would.
func (r recording) handling(ms []dedup.Message) (end func()) {
	if !r.handler {
		return func() {}
	}
	for _, m := range ms {
		r.journal.begin(idOf(m))
	}
	return func() {
		for _, m := range ms {
			r.journal.end(idOf(m), nil)
		}
	}
}

func (r recording) Process(ctx context.Context, m dedup.Message) dedup.Result {
	defer r.handling([]dedup.Message{m})()
	result := r.TxGuard.Process(ctx, m)
	r.journal.results([]dedup.Message{m}, []dedup.Result{result})
	return result
}

func (r recording) ProcessEach(ctx context.Context, ms []dedup.Message) []dedup.Result {
	defer r.handling(ms)()
	results := r.TxGuard.ProcessEach(ctx, ms)
	r.journal.results(ms, results)
	return results
}

func (r recording) ProcessBatch(ctx context.Context, ms []dedup.Message) []dedup.Result {
	seen := make(map[string]bool, len(ms))
	for _, m := range ms {
		if id := idOf(m); seen[id] {
			r.journal.note("twin %s", id)
		} else {
			seen[id] = true
		}
	}
	defer r.handling(ms)()
	results := r.TxGuard.ProcessBatch(ctx, ms)
	r.journal.results(ms, results)
	return results
}

func (r recording) Bury(ctx context.Context, m dedup.Message, reason error) dedup.Result {
	result := r.TxGuard.Bury(ctx, m, reason)
	r.journal.results([]dedup.Message{m}, []dedup.Result{result})
	return result
}
