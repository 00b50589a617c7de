package outbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/semel-dev/semel/outbox"
	"github.com/semel-dev/semel/store"
	"github.com/semel-dev/semel/store/pgstore"
)

// A child is this test binary, run as a relay that kills itself: real deaths need processes.
const (
	childDSN = "SEMEL_TEST_RELAY_DSN"
	// childDeath says what kills it: an event of type "poison" before it is sent, or "after"
	// any event was sent.
	childDeath = "SEMEL_TEST_RELAY_DEATH"
	// childLog is a file to which it appends each event that it has sent.
	childLog = "SEMEL_TEST_RELAY_LOG"
)

func childMain() {
	if dsn := os.Getenv(childDSN); dsn != "" {
		fmt.Fprintln(os.Stderr, childRelay(dsn))
		os.Exit(3)
	}
}

func childRelay(dsn string) error {
	// Should the test die, so does the child.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	s, err := pgstore.New(pool)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(os.Getenv(childLog), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	rec := newRecorder(func(_ context.Context, e store.Event) error {
		if os.Getenv(childDeath) == "poison" && e.Type == "poison" {
			kill()
		}
		if _, err := fmt.Fprintln(log, e.ID, string(e.Key), e.Type); err != nil {
			return err
		}
		if os.Getenv(childDeath) == "after" {
			kill()
		}
		return nil
	})
	relay, err := outbox.NewRelay(s, map[string]outbox.Publisher{"kafka": rec}, fast(outbox.WithLease(time.Second))...)
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// child runs a relay in a process of its own until it dies and says whether it did so by
// its own hand. It is stopped when enough is true.
func (b *box) child(log, death string, enough func() bool) (killed bool) {
	b.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDSN+"="+b.dsn, childDeath+"="+death, childLog+"="+log)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case <-ended:
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
				b.t.Fatalf("the child ended by itself: %s", out.String())
			}
			return true
		case <-time.After(20 * time.Millisecond):
			if enough() {
				_ = cmd.Process.Kill()
				<-ended
				return false
			}
		}
	}
}

func logged(t *testing.T, file string) (lines []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
}

func TestEventThatKillsItsRelayIsParkedBeforeItKillsThemAll(t *testing.T) {
	b := newBox(t)
	log := t.TempDir() + "/log"
	var events []store.Event
	for i := range 40 {
		events = append(events, event("kafka", fmt.Sprint("k", i), "0"), event("kafka", fmt.Sprint("k", i), "1"))
	}
	events = append(events, event("kafka", "bad", "poison"), event("kafka", "bad", "behind"))
	b.write(events...)
	deaths := 0
	for b.waiting("parked") == 0 {
		if b.child(log, "poison", func() bool { return b.waiting("parked") > 0 }) {
			deaths++
		}
		if deaths > 8 {
			t.Fatal("relays die one after another")
		}
	}
	if deaths < 2 {
		t.Errorf("it was parked after %d deaths: that may have been anything", deaths)
	}
	// A relay that survives sends all the others.
	rec := newRecorder(nil)
	b.run(map[string]outbox.Publisher{"kafka": rec})
	eventually(t, "only the cause and what is behind it are left", func() bool { return b.left() == 2 })
	if n := b.count("select count(*) from semel.outbox_waiting where state = 'parked' and type = 'poison'"); n != 1 {
		t.Errorf("%d events of those parked are the cause", n)
	}
	for i := range 40 {
		var got []string
		for _, line := range logged(t, log) {
			if f := strings.Fields(line); f[1] == fmt.Sprint("k", i) {
				got = append(got, f[2])
			}
		}
		got = append(got, rec.types(fmt.Sprint("k", i))...)
		if got = firstCopies(got); !slices.Equal(got, numbered(2)) {
			t.Errorf("key %d came as %v", i, got)
		}
	}
	t.Logf("%d relays died", deaths)
}

func TestCrashBetweenSendingAndNotingSendsTheSameIDAgain(t *testing.T) {
	b := newBox(t)
	log := t.TempDir() + "/log"
	b.write(event("kafka", "a", "0"))
	if !b.child(log, "after", func() bool { return false }) {
		t.Fatal("the relay did not die")
	}
	first := logged(t, log)
	if len(first) != 1 {
		t.Fatalf("it had sent %q", first)
	}
	rec := newRecorder(nil)
	b.run(map[string]outbox.Publisher{"kafka": rec})
	rec.wait(t, 1)
	if id, _, _ := strings.Cut(first[0], " "); rec.events()[0].ID.String() != id {
		t.Errorf("the copy has the id %s, the first one had %s", rec.events()[0].ID, id)
	}
	eventually(t, "the outbox is empty", func() bool { return b.left() == 0 })
}

// Relays that are killed again and again, at any moment, lose nothing and change no order.
func TestKilledRelaysLoseNothing(t *testing.T) {
	b := newBox(t)
	log := t.TempDir() + "/log"
	const keys, each = 20, 60
	for i := range each {
		var events []store.Event
		for k := range keys {
			events = append(events, event("kafka", fmt.Sprint("k", k), fmt.Sprint(i)))
		}
		b.write(events...)
	}
	for round := range 6 {
		lines := len(logged(t, log))
		b.child(log, "", func() bool { return len(logged(t, log)) > lines+40*round || b.left() == 0 })
	}
	rec := newRecorder(nil)
	b.run(map[string]outbox.Publisher{"kafka": rec})
	eventually(t, "the outbox is empty", func() bool {
		// An event that was on its way at every one of the deaths may have been parked for it.
		if _, err := b.store.RetryWaiting(t.Context(), store.WaitingFilter{State: store.Parked}, 100); err != nil {
			t.Fatal(err)
		}
		return b.left() == 0
	})
	for k := range keys {
		var got []string
		for _, line := range logged(t, log) {
			if f := strings.Fields(line); f[1] == fmt.Sprint("k", k) {
				got = append(got, f[2])
			}
		}
		got = append(got, rec.types(fmt.Sprint("k", k))...)
		if got = firstCopies(got); !slices.Equal(got, numbered(each)) {
			t.Errorf("key %d came as %v", k, got)
		}
	}
}
