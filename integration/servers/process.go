package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// process is one run of a server. A goroutine of its own reaps it and then closes done.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // How it ended; to be read after done is closed.
}

// pipeLimit is how long a command that was killed is waited for whose own children still hold its output open.
const pipeLimit = 10 * time.Second

// startProcess starts cmd with its output appended to the file log, and tells the guard about it.
func startProcess(cmd *exec.Cmd, log string, g *guard) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	// A file, not a pipe: the server must be able to write while nobody reads, and `go test` waits for every process
	// that holds a pipe of its own.
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Start()
	closeErr := out.Close()
	if err := errors.Join(err, closeErr); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	watchErr := g.watch(cmd.Process.Pid)
	go func() {
		defer close(p.done)
		p.err = errors.Join(cmd.Wait(), g.watch(0))
	}()
	if watchErr != nil {
		return nil, errors.Join(watchErr, p.kill())
	}
	return p, nil
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends sig and waits up to patience for the end of the process; then it kills it.
func (p *process) signal(sig os.Signal, patience time.Duration) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("still running %v after %v, killed", patience, sig), p.kill())
	}
}

func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// await calls ready until it returns nil, the process ends, or ctx is done. The error is what stood in the way.
func (p *process) await(ctx context.Context, every time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.done:
			cancel(fmt.Errorf("the process ended: %w", p.ended()))
		case <-ctx.Done():
		}
	}()
	return poll(ctx, every, ready)
}

// ended is how the process ended, never nil.
func (p *process) ended() error {
	<-p.done
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// tail returns the end of a log file, for error messages.
func tail(path string, limit int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		if _, err := f.Seek(-limit, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
