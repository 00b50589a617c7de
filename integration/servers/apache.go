package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	apacheStartLimit = 2 * time.Minute
	apacheStopLimit  = 30 * time.Second
)

// ApacheKafka is one Apache Kafka broker on a JVM of its own: a real one, started from the project's own release. Its
// methods may be called concurrently; those that start or end the broker wait for one another.
type ApacheKafka struct {
	java      string
	libraries string
	dir       string
	ports     apachePorts
	config    apacheConfig
	guard     *guard

	mu      sync.Mutex
	run     *process // The last run, which may have ended.
	stopped bool
}

// StartApacheKafka starts a broker that is its own controller (KRaft) on free loopback ports, with its log in a
// temporary directory, and waits until it answers metadata requests and coordinates groups. It needs Java 17 or newer
// and, the first time for each version, Maven's mvn, which fetches the release into the user's cache directory as
// semel/kafka-VERSION.
//
// The caller ends it with [ApacheKafka.Stop]. It ends with this process in any case, except on Windows; see the package
// documentation. ctx bounds the start only.
func StartApacheKafka(ctx context.Context, opts ...ApacheKafkaOption) (*ApacheKafka, error) {
	k, err := startApacheKafka(ctx, newApacheConfig(opts))
	if err != nil {
		return nil, fmt.Errorf("servers: start apache kafka: %w", err)
	}
	return k, nil
}

func startApacheKafka(ctx context.Context, config apacheConfig) (_ *ApacheKafka, err error) {
	java, err := findJava()
	if err != nil {
		return nil, err
	}
	libraries, err := fetchApacheKafka(ctx, config.version)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "semel-kafka-")
	if err != nil {
		return nil, err
	}
	// The data is of no use once this process is gone, so an orderly end is of none either.
	guard, err := startGuard("KILL", dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	k := &ApacheKafka{java: java, libraries: libraries, dir: dir, config: config, guard: guard}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.Stop())
		}
	}()
	for try := 1; ; try++ {
		if err := k.format(ctx); err != nil {
			return nil, err
		}
		err = k.start(ctx)
		if err == nil {
			return k, nil
		}
		if try == startTries || !strings.Contains(err.Error(), "Address already in use") {
			return nil, err
		}
	}
}

// format writes the configuration for new ports and an empty log.
func (k *ApacheKafka) format(ctx context.Context) (err error) {
	if k.ports.broker, err = freePort(); err != nil {
		return err
	}
	if k.ports.controller, err = freePort(); err != nil {
		return err
	}
	if err := os.RemoveAll(k.data()); err != nil {
		return err
	}
	if err := os.WriteFile(k.properties(), []byte(k.config.properties(k.ports, k.data())), 0o600); err != nil {
		return err
	}
	cmd := k.command(ctx, "kafka.tools.StorageTool", "format", "-t", newClusterID(), "-c", k.properties())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format the log: %w\n%s", err, out)
	}
	return nil
}

func (k *ApacheKafka) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apacheStartLimit)
	defer cancel()
	// The broker outlives ctx, so its command does not get it.
	run, err := startProcess(k.command(context.Background(), "kafka.Kafka", k.properties()), k.log(), k.guard)
	if err != nil {
		return err
	}
	k.run = run
	if err := run.await(ctx, 100*time.Millisecond, k.ready); err != nil {
		return errors.Join(fmt.Errorf("%w\n%s", err, k.Logs()), run.kill())
	}
	return nil
}

// ready asks for a group's coordinator, which a broker can tell only once it knows itself by the metadata and has made
// the topic where offsets are committed. A consumer group that came earlier would wait for five seconds.
func (k *ApacheKafka) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(k.Brokers()...), Transport: transport}
	answer, err := client.FindCoordinator(ctx, &kafka.FindCoordinatorRequest{
		Key: "semel", KeyType: kafka.CoordinatorKeyTypeConsumer,
	})
	if err != nil {
		return err
	}
	return answer.Error
}

// command is one of the broker's programs on a small JVM that logs warnings to its standard error.
func (k *ApacheKafka) command(ctx context.Context, class string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.java, append([]string{
		"-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true",
		"-Djava.io.tmpdir=" + k.dir, // Where the native parts of its libraries are unpacked, and left by a broker that is killed.
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-cp", filepath.Join(k.libraries, "*"), class,
	}, args...)...)
	(*account)(nil).detach(cmd)
	cmd.WaitDelay = pipeLimit
	cmd.Dir = k.dir
	return cmd
}

func (k *ApacheKafka) data() string       { return filepath.Join(k.dir, "log") }
func (k *ApacheKafka) properties() string { return filepath.Join(k.dir, "server.properties") }
func (k *ApacheKafka) log() string        { return filepath.Join(k.dir, "kafka.log") }

// Brokers is the address where clients connect. It stays the same over a kill and a restart.
func (k *ApacheKafka) Brokers() []string { return []string{hostPort(k.ports.broker)} }

// Version is the version of the release, such as "4.1.2".
func (k *ApacheKafka) Version() string { return k.config.version }

// CreateTopic makes a topic and waits until every partition has a leader.
func (k *ApacheKafka) CreateTopic(ctx context.Context, name string, partitions int) error {
	return createTopic(ctx, k.Brokers(), name, partitions)
}

// Kill ends the broker with SIGKILL. What it had acknowledged is there after [ApacheKafka.Restart]. Killing a broker
// that is not running does nothing.
func (k *ApacheKafka) Kill() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.run == nil {
		return nil
	}
	if err := k.run.kill(); err != nil {
		return fmt.Errorf("servers: kill apache kafka: %w", err)
	}
	return nil
}

// Restart starts the broker again on the same ports and log; one that is still running it first shuts down in order.
func (k *ApacheKafka) Restart(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return errors.New("servers: restart apache kafka: it was stopped and its log removed")
	}
	err := k.end()
	if err == nil {
		err = k.start(ctx)
	}
	if err != nil {
		return fmt.Errorf("servers: restart apache kafka: %w", err)
	}
	return nil
}

// Stop ends the broker and removes its log. Stopping it again does nothing.
func (k *ApacheKafka) Stop() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil
	}
	k.stopped = true
	var err error
	if k.run != nil {
		err = k.run.kill() // Nobody will read its log again, and an orderly end takes seconds.
	}
	// In this order: the guard removes the directory too, and must not while the broker still uses it.
	if err := errors.Join(err, k.guard.close(), os.RemoveAll(k.dir)); err != nil {
		return fmt.Errorf("servers: stop apache kafka: %w", err)
	}
	return nil
}

// Logs returns the end of what the broker wrote to its log, for error messages.
func (k *ApacheKafka) Logs() string { return tail(k.log(), 8<<10) }

func (k *ApacheKafka) end() error {
	if k.run == nil || !k.run.alive() {
		return nil
	}
	return k.run.signal(syscall.SIGTERM, apacheStopLimit)
}
