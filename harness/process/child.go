//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/runs"
)

type child struct {
	*proc.Child
	name   string
	log    string // file with its stderr
	paused atomic.Bool
}

var _ runs.Program = (*child)(nil)

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

// Words is the end of its log.
func (ch *child) Words() string {
	log, _ := os.ReadFile(ch.log) // no log, no words
	return strings.TrimSpace(string(log[max(0, len(log)-1000):]))
}

func (c *cluster) startChild(name string) (*runs.Client, error) {
	ch := &child{name: name, log: filepath.Join(c.group.Dir, name+".log")}
	log, err := os.Create(ch.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// Own pipes: those of exec.Cmd are closed when it is reaped, read or not.
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer stdout.Close()
	free := func() { in.Close(); out.Close() }
	cmd := exec.Command(c.self[0], c.self[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, log
	var leader *proc.Child
	if a := c.adapters[name]; a != nil {
		cmd.ExtraFiles, cmd.Env = []*os.File{a.Out, a.In}, append(os.Environ(), lockexec.Pipes+"=1")
		leader = a.Child
		defer a.Leave()
	}
	if ch.Child, err = c.group.Join(leader, name, cmd); err != nil {
		free()
		return nil, err
	}
	return &runs.Client{Program: ch, In: in, Out: out, Freed: free}, nil
}
