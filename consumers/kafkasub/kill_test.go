package kafkasub_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store/pgstore"
)

// Names of the environment with which the test starts itself as a process that it kills.
const (
	victimBroker = "KAFKASUB_TEST_BROKER"
	victimDSN    = "KAFKASUB_TEST_DSN"
)

// victim consumes until it is killed, if this process was started for that.
func victim() bool {
	broker := os.Getenv(victimBroker)
	if broker == "" {
		return false
	}
	pool, err := pgxpool.New(context.Background(), os.Getenv(victimDSN))
	if err == nil {
		var c *kafkasub.Consumer
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		if c, err = effectConsumer(pool, broker, kafkasub.WithLogger(log)); err == nil {
			err = c.Run(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, "victim:", err)
	return true
}

// effectConsumer writes a row per message. The table has no unique constraint: what is done
// twice is there twice. Each seventh message fails on its first attempt in a process.
func effectConsumer(pool *pgxpool.Pool, broker string, opts ...kafkasub.Option) (*kafkasub.Consumer, error) {
	s, err := pgstore.New(pool)
	if err != nil {
		return nil, err
	}
	guard, err := dedup.NewTx(s, "billing", dedup.FromCoordinates(), func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if _, err := tx.Exec(ctx, "insert into effects (name) values ($1)", string(m.Body)); err != nil {
			return err
		}
		if m.Position.Offset%7 == 3 && m.Attempt == 1 {
			return fmt.Errorf("fails on its first attempt")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return kafkasub.New(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{broker}, Topics: []string{topic},
		HeartbeatInterval: 100 * time.Millisecond, SessionTimeout: 3200 * time.Millisecond, RebalanceTimeout: 3200 * time.Millisecond,
		JoinGroupBackoff: 200 * time.Millisecond,
	}, guard, append(opts, fastPolicy(3), kafkasub.WithCommitInterval(20*time.Millisecond))...)
}

// Processes are killed at any moment. What they had done is done once, and what they had not is
// done by the next one.
func TestKilledProcessesLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	const partitions, each, kills = 2, 1500, 4
	b := startBroker(t, partitions, kfake.GroupMinSessionTimeout(time.Second))
	dsn := servertest.StartPostgres(t).DSN()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(365*24*time.Hour, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "create table effects (name text not null)"); err != nil {
		t.Fatal(err)
	}
	for p := range int32(partitions) {
		produce(t, b, p, numbered(fmt.Sprintf("p%d-", p), each)...)
	}
	count := func(what string) (n int) {
		if err := pool.QueryRow(t.Context(), "select count("+what+") from effects").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range kills {
		before := count("*")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), victimBroker+"="+b.Brokers()[0], victimDSN+"="+dsn)
		var out strings.Builder
		cmd.Stderr = &out
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("one of the processes:\n%s", out.String())
			}
		})
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The next one gets its partitions when the session of the one before has timed out.
		eventually(t, "the process is at work", func() bool { return count("*") > before })
		time.Sleep(time.Duration(rand.IntN(60_000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Logf("killed after %d effects; committed %d and %d", count("*"), committed(t, b, 0), committed(t, b, 1))
	}
	c, err := effectConsumer(pool, b.Brokers()[0])
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, c)
	for p := range int32(partitions) {
		untilCommitted(t, b, p, each)
	}
	r.stop(t)
	if all, distinct := count("*"), count("distinct name"); all != partitions*each || distinct != partitions*each {
		t.Errorf("%d effects, %d of them distinct, of %d messages", all, distinct, partitions*each)
	}
}
