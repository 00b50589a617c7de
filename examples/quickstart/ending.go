package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const stopLimit = 20 * time.Second

// stopAll lets everybody finish and waits for the ends.
func (s *story) stopAll(ctx context.Context) error {
	for _, c := range s.children {
		c.killed = true // From here on its end is expected.
		if err := c.stop(); err != nil {
			return err
		}
	}
	limit := time.After(stopLimit)
	for left := len(s.children); left > 0; {
		select {
		case e := <-s.events:
			if !e.ended {
				s.tally.add(e.from.role, e.report)
				continue
			}
			left--
			delete(s.children, e.from.role)
			if e.from.err != nil {
				return fmt.Errorf("the %s did not stop cleanly (%v):\n%s", e.from.role, e.from.err, e.from.log)
			}
		case <-limit:
			return fmt.Errorf("somebody did not stop within %s", stopLimit)
		case <-ctx.Done():
			return s.late(ctx)
		}
	}
	return nil
}

// killAll leaves no process behind, whatever has happened.
func (s *story) killAll() {
	left := 0
	for _, c := range s.children {
		if c.kill() == nil {
			left++
		}
	}
	for left > 0 {
		if e := <-s.events; e.ended {
			left--
		}
	}
	clear(s.children)
}

// late says what was waited for when time was up.
func (s *story) late(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.As(cause, new(interrupted)) {
		return cause
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	missing, err := s.missing(look)
	return errors.Join(fmt.Errorf("%w: %s", cause, strings.Join(missing, "; ")), err)
}

// explain adds what the processes had to say.
func (s *story) explain(err error) error {
	if errors.As(err, new(interrupted)) {
		return err
	}
	for _, c := range s.children {
		if text := c.log.String(); text != "" {
			err = fmt.Errorf("%w\n--- the end of the log of the %s:\n%s", err, c.role, text)
		}
	}
	return err
}
