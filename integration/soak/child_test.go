//go:build unix

package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
)

// child is a process of the soak. Its log is in the run's directory.
type child struct {
	name   string
	log    string
	cmd    *exec.Cmd
	input  io.WriteCloser // a byte asks the child to leave; its end is the child's
	done   chan struct{}
	killed atomic.Bool // by the parent
}

func spawn(o orders, dir string) (*child, error) {
	order, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{name: o.Name, log: filepath.Join(dir, o.Name+".log"), cmd: exec.Command(program), done: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(order))
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.cmd.Wait() // how it ended is in ProcessState
		close(c.done)
	}()
	return c, nil
}

func (c *child) kill() {
	c.killed.Store(true)
	_ = c.cmd.Process.Kill()
	<-c.done
}

func (c *child) dead() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// end asks it to end in good order.
func (c *child) end() { _, _ = c.input.Write([]byte{0}) } // fails for one that has ended

// fate is how a child ended.
type fate int

const (
	left    fate = iota + 1 // in good order
	shot                    // by the parent
	suicide                 // over a message
	gaveUp                  // with an error, as when it could not start in an outage
	broken                  // a panic, a race, a signal of unknown origin
)

func (c *child) fate() fate {
	<-c.done
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return broken
	case status.Signaled() && status.Signal() == syscall.SIGKILL && c.killed.Load():
		return shot
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return suicide
	case status.Exited() && status.ExitStatus() == 0:
		return left
	case status.Exited() && status.ExitStatus() == exitError:
		return gaveUp
	}
	return broken
}

// said is the end of its log.
func (c *child) said(bytes int) string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	if len(text) > bytes {
		text = text[len(text)-bytes:]
	}
	return fmt.Sprintf("%s (%s): %s", c.name, c.cmd.ProcessState, text)
}
