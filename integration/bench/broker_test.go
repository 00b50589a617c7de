//go:build unix

package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/semel-dev/semel/integration/servers"
)

const (
	childEnv = "SEMEL_BENCH_CHILD"
	serving  = "serving at "
)

// TestBroker is the process of a broker that the benchmarks start: what a broker in their own
// process uses would be counted as the client's.
func TestBroker(t *testing.T) {
	var addr string
	switch which := os.Getenv(childEnv); which {
	case "":
		t.Skip("it is started by the benchmarks")
	case "kafka":
		broker, err := servers.StartKfake()
		if err != nil {
			t.Fatal(err)
		}
		defer broker.Close()
		addr = broker.Brokers()[0]
	case "nats":
		broker, err := servers.StartNATS(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := broker.Stop(); err != nil {
				t.Error(err)
			}
		}()
		addr = broker.URL()
	default:
		t.Fatalf("%s=%s: want kafka or nats", childEnv, which)
	}
	fmt.Println(serving + addr)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark closes it, or dies
}

// startBroker starts that process and returns the broker's address.
func startBroker(b *testing.B, which string) string {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBroker$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), childEnv+"="+which)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	input, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	b.Cleanup(func() {
		_ = input.Close() // it ends
		for lines.Scan() {
		}
		if err := cmd.Wait(); err != nil {
			b.Errorf("the %s broker: %v\n%s", which, err, &complaints)
		}
	})
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), serving); ok {
			return addr
		}
		fmt.Fprintln(&complaints, lines.Text())
	}
	b.Fatalf("the %s broker did not start\n%s", which, &complaints)
	return ""
}

const defaultMessages = 5_000

// backlogSizes is how many messages are consumed in batches, and how many where each of them has a
// transaction of its own, which takes some twenty times as long.
func backlogSizes(b *testing.B) (many, few int) {
	b.Helper()
	many = defaultMessages
	if text := os.Getenv("SEMEL_BENCH_MESSAGES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1000 {
			b.Fatalf("SEMEL_BENCH_MESSAGES=%s: want a number of at least 1000", text)
		}
		many = n
	}
	return many, max(many/20, 300)
}
