package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

const roleVariable = "SEMEL_QUICKSTART_ROLE"

// child is this program once more, in another role and another process.
type child struct {
	role   string
	pid    int
	cmd    *exec.Cmd
	orders io.WriteCloser // Its standard input: "stop" asks it to finish, the end makes it exit.
	log    *tail          // The end of its standard error.
	killed bool           // Its end is expected. For whoever hears the events.
	err    error          // How it ended, once its end was heard of.
}

// event is something that the first process hears of a child: a report, or its end.
type event struct {
	from  *child
	ended bool
	report
}

// start runs a role in a process of its own. Its reports arrive in order, and its end after
// them. Somebody has to receive events until then.
func start(role string, s stage, events chan<- event) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	environ, err := s.environ()
	if err != nil {
		return nil, err
	}
	c := &child{role: role, cmd: exec.Command(program), log: &tail{limit: 4 << 10}}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+role, environ)
	c.cmd.Stderr = c.log
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	reports, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", role, err)
	}
	c.pid = c.cmd.Process.Pid
	go c.listen(reports, events)
	return c, nil
}

func (c *child) listen(reports io.Reader, events chan<- event) {
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		e := event{from: c}
		// SIGKILL may cut the last line in two.
		if json.Unmarshal(lines.Bytes(), &e.report) == nil {
			events <- e
		}
	}
	c.err = c.cmd.Wait()
	events <- event{from: c, ended: true}
}

// kill ends the process at whatever instruction it is: SIGKILL on Unix.
func (c *child) kill() error {
	c.killed = true
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the %s: %w", c.role, err)
	}
	return nil
}

// stop asks the process to finish what it has begun.
func (c *child) stop() error {
	if _, err := io.WriteString(c.orders, "stop\n"); err != nil {
		return fmt.Errorf("stop the %s: %w", c.role, err)
	}
	return nil
}

// obey returns a context that ends when the first process says stop. When that process is
// gone its end of the pipe is closed, even by SIGKILL, and this process exits at once: it must
// not outlive the servers that it talks to. Being cut off like that is what it is built for.
func obey(orders io.Reader) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		lines := bufio.NewScanner(orders)
		for lines.Scan() {
			cancel()
		}
		os.Exit(1)
	}()
	return ctx
}

// together runs the parts of a process. When one of them ends, with an error or not, the
// others are told to, and all are waited for.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan error, len(parts))
	for _, part := range parts {
		go func() { ends <- part(ctx) }()
	}
	var errs []error
	for range parts {
		errs = append(errs, <-ends)
		cancel()
	}
	return errors.Join(errs...)
}

// tail keeps the end of what is written to it.
type tail struct {
	limit int
	mu    sync.Mutex
	text  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - t.limit; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
