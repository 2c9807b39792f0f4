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
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness"
	"lockpick/harness/client"
	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/real/clock"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
)

// helloBound is how long an adapter may take to start: a virtual machine has to load.
const helloBound = 30 * time.Second

// adapter is the program that has a client's lock. It starts before time zero; its client
// joins its process group and has its pipes as files 3 and 4.
type adapter struct {
	*proc.Child
	in, out *os.File // its stdin and stdout, the client's ends
	log     string   // file with its stderr
}

// adapterOf is the name of a client's adapter among processes.
func adapterOf(client string) string { return client + "-adapter" }

// startAdapters starts those of all clients, and waits until each has said its hello, which
// is left for its client.
func (c *cluster) startAdapters(s scenario.Scenario) error {
	if s.Lock.Kind != lockexec.Name {
		return nil
	}
	if len(c.program) == 0 {
		return errors.New("run: lock exec has no program: say --adapter COMMAND")
	}
	c.adapters = map[string]*adapter{}
	for _, name := range s.ClientNames() {
		a, err := c.startAdapter(name)
		if err != nil {
			return err
		}
		c.adapters[name] = a
	}
	end := time.Now().Add(helloBound)
	for _, name := range s.ClientNames() {
		if err := c.adapters[name].speaks(c.Ctx, end); err != nil {
			return fmt.Errorf("start the adapter of %s (%s): %w%s", name, strings.Join(c.program, " "), err, c.lastWords(name))
		}
	}
	return nil
}

func (c *cluster) startAdapter(client string) (*adapter, error) {
	a := &adapter{log: filepath.Join(c.group.Dir, adapterOf(client)+".log")}
	log, err := os.Create(a.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
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
	a.in, a.out = in, out
	cmd := exec.Command(c.program[0], c.program[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, log
	if a.Child, err = c.group.Start(adapterOf(client), cmd); err != nil {
		a.leave()
		return nil, err
	}
	c.group.Cleanup(func() error { a.leave(); return nil })
	return a, nil
}

// leave lets go of its pipes, which its client has then alone.
func (a *adapter) leave() { a.in.Close(); a.out.Close() }

// speaks waits until there is something to read from it.
func (a *adapter) speaks(ctx context.Context, end time.Time) error {
	fds := []unix.PollFd{{Fd: int32(a.out.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 50)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0 && fds[0].Revents&unix.POLLIN != 0:
			return nil
		case n > 0:
			return errors.New("it has ended without a word on stdout")
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(end):
			return fmt.Errorf("it has said no hello for %v", helloBound)
		}
	}
}

// lastWords is the end of what a client's adapter has written on stderr, as a part of an error.
func (c *cluster) lastWords(client string) string {
	log, _ := os.ReadFile(filepath.Join(c.group.Dir, adapterOf(client)+".log"))
	words := strings.TrimSpace(string(log[max(0, len(log)-1000):]))
	if words == "" {
		return ""
	}
	return "\nits last words on stderr:\n" + words
}

// RunClient is that of package runs; of a broken adapter it has the last words.
func (c *cluster) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	err := c.Run.RunClient(ctx, s, at)
	if c.program != nil && err != nil && err != harness.ErrKilled && ctx.Err() == nil {
		return fmt.Errorf("%w%s", err, c.lastWords(s.Name))
	}
	return err
}

// pair is the clocks of a client and of its adapter, which are turned as one.
type pair struct{ client, adapter *clock.Machine }

// Shown is what they show.
func (p pair) Shown() clock.Shown { return p.client.Shown() }

// Turn turns both.
func (p pair) Turn(by time.Duration, rate float64) (from, to time.Duration, err error) {
	other := make(chan error, 1)
	go func() {
		_, _, err := p.adapter.Turn(by, rate)
		other <- err
	}()
	from, to, err = p.client.Turn(by, rate)
	return from, to, errors.Join(err, <-other)
}
