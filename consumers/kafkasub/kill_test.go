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
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/semel-dev/semel/consumers/kafkasub"
	"github.com/semel-dev/semel/dedup"
	"github.com/semel-dev/semel/integration/servers"
	"github.com/semel-dev/semel/integration/servers/servertest"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// Names of the environment with which the test starts itself as a process that it kills.
const (
	victimBroker = "KAFKASUB_TEST_BROKER"
	victimDSN    = "KAFKASUB_TEST_DSN"
	victimMode   = "KAFKASUB_TEST_MODE"
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
		if c, err = effectConsumer(pool, broker, os.Getenv(victimMode), kafkasub.WithLogger(log)); err == nil {
			err = c.Run(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, "victim:", err)
	return true
}

// modes are the ways in which the consumer of these tests works. In mode "fence" the store keeps positions.
var modes = map[string][]kafkasub.Option{
	"each":  nil,
	"batch": {kafkasub.WithBatch(20, 10*time.Millisecond)},
	"lanes": {kafkasub.WithConcurrency(4)},
	"fence": nil,
}

// effectConsumer writes a row per message. The table has no unique constraint: what is done
// twice is there twice. Each seventh message fails on its first attempt in a process.
func effectConsumer(pool *pgxpool.Pool, broker, mode string, opts ...kafkasub.Option) (*kafkasub.Consumer, error) {
	s, err := pgstore.New(pool)
	if err != nil {
		return nil, err
	}
	var marks store.Marks[pgx.Tx] = s
	if mode == "fence" {
		marks = s.Fenced()
	}
	guard, err := dedup.NewTx(marks, "billing", dedup.FromCoordinates(), dedup.Forever, func(ctx context.Context, tx pgx.Tx, m dedup.Message) error {
		if _, err := tx.Exec(ctx, "insert into effects (name) values ($1)", string(m.Body)); err != nil {
			return err
		}
		if string(m.Body) == "poison" {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {} // until it takes effect
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
	}, guard, append(append(opts, modes[mode]...), fastPolicy(10), kafkasub.WithCommitInterval(20*time.Millisecond))...)
}

// effects makes a database with the table that the consumer writes.
func effects(t *testing.T, server *servers.Postgres, name string) (dsn string, pool *pgxpool.Pool) {
	t.Helper()
	dsn, err := server.CreateDatabase(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	pool, err = pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := pgstore.Migrate(t.Context(), pool, pgstore.WithPartitions(365*24*time.Hour, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "create table effects (name text not null)"); err != nil {
		t.Fatal(err)
	}
	return dsn, pool
}

func number(t *testing.T, pool *pgxpool.Pool, query string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// startVictim starts this program again as a consumer.
func startVictim(t *testing.T, broker, dsn, mode string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimBroker+"="+broker, victimDSN+"="+dsn, victimMode+"="+mode)
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("one of the processes:\n%s", out.String())
		}
	})
	return cmd
}

// A message kills every process that runs its handler. It is found out, whatever runs beside it, and
// buried; nobody else is.
func TestMessageThatKillsItsProcessEndsInTheDeadLetters(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	for mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			const each, poisonAt, deaths = 60, 30, 4 // the first one was not expected, and three were counted
			b := startBroker(t, 2, kfake.GroupMinSessionTimeout(time.Second))
			dsn, pool := effects(t, server, mode)
			values := numbered("p0-", each)
			values[poisonAt] = "poison"
			produce(t, b, 0, values...)
			produce(t, b, 1, numbered("p1-", each)...)
			for n := range deaths {
				cmd := startVictim(t, b.Brokers()[0], dsn, mode)
				ended := make(chan struct{})
				go func() { defer close(ended); _ = cmd.Wait() }()
				select {
				case <-ended:
				case <-time.After(2 * soon):
					t.Fatalf("process %d does not die of the message", n+1)
				}
				evict(t, b)
			}
			startVictim(t, b.Brokers()[0], dsn, mode)
			eventually(t, "everything is settled", func() bool { return committed(t, b, 0) == each && committed(t, b, 1) == each })
			if all, distinct := number(t, pool, "select count(*) from effects"), number(t, pool, "select count(distinct name) from effects"); all != 2*each-1 || distinct != 2*each-1 {
				t.Errorf("%d effects, %d of them distinct, of %d neighbours", all, distinct, 2*each-1)
			}
			s, err := pgstore.New(pool)
			if err != nil {
				t.Fatal(err)
			}
			letters, err := s.ListDead(t.Context(), store.LetterFilter{}, 0, 10)
			if err != nil || len(letters) != 1 {
				t.Fatalf("dead letters %+v, %v", letters, err)
			}
			if d := letters[0]; string(d.Body) != "poison" || d.Offset != poisonAt || !strings.Contains(d.Reason, "the process may have died of it 3 times") {
				t.Errorf("dead letter %+v", d)
			}
		})
	}
}

// evict makes the group forget its members, as it would when their sessions time out.
func evict(t *testing.T, b *servers.Kfake) {
	t.Helper()
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{group}
	for _, g := range request[*kmsg.DescribeGroupsResponse](t, b, describe).Groups {
		for _, m := range g.Members {
			leave := kmsg.NewPtrLeaveGroupRequest()
			leave.Group = group
			lm := kmsg.NewLeaveGroupRequestMember()
			lm.MemberID = m.MemberID
			leave.Members = append(leave.Members, lm)
			request[*kmsg.LeaveGroupResponse](t, b, leave)
		}
	}
}

// Processes are killed at any moment. What they had done is done once, and what they had not is
// done by the next one.
func TestKilledProcessesLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	for mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			const partitions, each, kills = 2, 800, 3
			b := startBroker(t, partitions, kfake.GroupMinSessionTimeout(time.Second))
			dsn, pool := effects(t, server, mode)
			for p := range int32(partitions) {
				produce(t, b, p, numbered(fmt.Sprintf("p%d-", p), each)...)
			}
			count := func(what string) int { return number(t, pool, "select count("+what+") from effects") }
			for range kills {
				before := count("*")
				cmd := startVictim(t, b.Brokers()[0], dsn, mode)
				eventually(t, "the process is at work", func() bool { return count("*") > before })
				time.Sleep(time.Duration(rand.IntN(60_000)) * time.Microsecond)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				t.Logf("killed after %d effects; committed %d and %d", count("*"), committed(t, b, 0), committed(t, b, 1))
				evict(t, b)
			}
			c, err := effectConsumer(pool, b.Brokers()[0], mode)
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
		})
	}
}
