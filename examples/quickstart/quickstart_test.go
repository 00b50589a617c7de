package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// tellVariable makes the test program tell the story, as the program itself does.
const tellVariable = "SEMEL_QUICKSTART_TEST_TELL"

// roleIdle is a child that does nothing but obey.
const roleIdle = "idle"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
	case roleIdle:
		<-obey(os.Stdin).Done()
		os.Exit(0)
	default:
		os.Exit(play(role))
	}
	if os.Getenv(tellVariable) != "" {
		os.Exit(tellStory(small))
	}
	goleak.VerifyTestMain(m)
}

var small = config{Payments: 600, Kills: 1, Seed: 7}

func TestEveryEffectTakesPlaceOnce(t *testing.T) {
	t.Parallel()
	sum := hearStory(t, small)
	if sum.lost() != 0 || sum.doubled() != 0 || !sum.right() {
		t.Errorf("the verdict is %q", sum.verdict())
	}
	for what, n := range map[string]int{
		"kills of the worker":                  sum.Kills[roleWorker],
		"kills of the relay":                   sum.Kills[roleRelay],
		"payments that were delivered again":   sum.Bank.Again,
		"payments that were produced twice":    sum.Bank.Twice,
		"payments that came over both brokers": sum.Bank.Both,
		"webhooks that were answered with 500": sum.Fates[refused],
		"webhooks that hung":                   sum.Fates[hung],
		"webhooks with their answer dropped":   sum.Fates[dropped],
		"webhooks that came twice":             sum.CopiesVia[viaWebhook],
	} {
		if n == 0 {
			t.Errorf("there are no %s: the story proves less than it says", what)
		}
	}
}

func TestNaiveConsumerDoublesAndLosesNothing(t *testing.T) {
	t.Parallel()
	naive := small
	naive.Naive = true
	sum := hearStory(t, naive)
	if sum.right() || sum.doubled() < sum.Copies {
		t.Errorf("doubled %d with %d copies produced: the damage is not seen", sum.doubled(), sum.Copies)
	}
	if sum.lost() != 0 {
		t.Errorf("lost %d: a consumer that acknowledges after its commit loses nothing", sum.lost())
	}
	if v := sum.verdict(); !strings.Contains(v, "booked again") {
		t.Errorf("the verdict does not say why: %s", v)
	}
}

func hearStory(t *testing.T, c config) summary {
	t.Helper()
	var out bytes.Buffer
	sum, err := run(t.Context(), c, &out)
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestInterruptCleansUpAndExitsWith130(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot send an interrupt to one process")
	}
	t.Parallel()
	program, children := startProgram(t)
	// Twice, as under a program that passes on what the terminal has sent to both.
	for range 2 {
		if err := program.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := program.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("it ended with %v, want exit status 130", err)
	}
	for role, pid := range children {
		if alive(pid) {
			t.Errorf("the %s, process %d, is still there", role, pid)
		}
	}
}

func TestChildrenDoNotOutliveTheirParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it looks into /proc")
	}
	t.Parallel()
	program, children := startProgram(t)
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for role, pid := range children {
		for alive(pid) {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("the %s, process %d, outlives its parent", role, pid)
			}
		}
	}
}

func TestChildStopsWhenToldAndExitsWhenItsParentIsGone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		order  func(*child) error
		status int
	}{
		"told to stop":       {(*child).stop, 0},
		"the parent is gone": {func(c *child) error { return c.orders.Close() }, 1},
	} {
		events := make(chan event, 1)
		c, err := start(roleIdle, stage{}, events)
		if err != nil {
			t.Fatal(err)
		}
		if err := test.order(c); err != nil {
			t.Fatal(err)
		}
		<-events // Its end: there is no other.
		if got := c.cmd.ProcessState.ExitCode(); got != test.status {
			t.Errorf("%s: it exits with %d, want %d", name, got, test.status)
		}
	}
}

// startProgram starts the program and returns when worker and relay have been killed once, with
// the ids of the processes that took their places.
func startProgram(t *testing.T) (program *exec.Cmd, children map[string]int) {
	t.Helper()
	program = exec.Command(os.Args[0])
	program.Env = append(os.Environ(), tellVariable+"=1")
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill() })
	again := regexp.MustCompile(`kill -9 \d+, the (\w+), .* as (\d+)`)
	children = map[string]int{}
	lines := bufio.NewScanner(out)
	for len(children) < 2 && lines.Scan() {
		if m := again.FindStringSubmatch(lines.Text()); m != nil {
			if children[m[1]], err = strconv.Atoi(m[2]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(children) < 2 {
		t.Fatalf("the story ended before worker and relay were killed: %v", lines.Err())
	}
	return program, children
}

// alive is false for a process that has ended and that nobody has waited for.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil || p.Signal(syscall.Signal(0)) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return runtime.GOOS != "linux"
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
