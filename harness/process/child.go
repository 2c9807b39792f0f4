//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"

	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
)

type child struct {
	*proc.Piped
	name   string
	paused atomic.Bool
}

var _ real.Program = (*child)(nil)

// Pause stops it.
func (ch *child) Pause(context.Context) (string, error) {
	// The first of two ends would let it run while the other pause is in force.
	if ch.paused.Swap(true) {
		return "", fmt.Errorf("pause %s: it is paused already", ch.name)
	}
	return ch.Stop()
}

// Resume lets it go on.
func (ch *child) Resume(context.Context) (string, error) {
	defer ch.paused.Store(false)
	back, err := ch.Continue()
	if errors.Is(err, proc.ErrEnded) {
		return "it has ended", nil
	}
	return back, err
}

// Kill ends it without warning.
func (ch *child) Kill(context.Context) (string, error) {
	select {
	case <-ch.Done():
		return "", proc.ErrEnded
	default:
	}
	if err := ch.Child.Kill(); err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d has ended", ch.PID()), nil
}

// Paused says whether it is.
func (ch *child) Paused() bool { return ch.paused.Load() }

// End says how it ended.
func (ch *child) End() error { return ch.Err() }

func (c *cluster) startChild(name string) (*real.Client, error) {
	cmd := exec.Command(c.self[0], c.self[1:]...)
	var leader *proc.Child
	if a := c.adapters[name]; a != nil {
		cmd.ExtraFiles, cmd.Env = []*os.File{a.Out, a.In}, append(os.Environ(), lockexec.Pipes+"=1")
		leader = a.Child
		defer a.Leave()
	}
	p, err := c.group.JoinPiped(leader, name, cmd)
	if err != nil {
		return nil, err
	}
	return &real.Client{Program: &child{Piped: p, name: name}, In: p.In, Out: p.Out, Freed: p.Leave}, nil
}
