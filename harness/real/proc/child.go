//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/internal/files"
)

// signalBound is how long the kernel may take to stop, continue or end a
// process. It takes milliseconds; beyond the bound something is wrong.
const signalBound = 5 * time.Second

// Child is one process of a Group.
type Child struct {
	name  string
	pid   int
	start uint64 // see owned.Stat
	done  chan struct{}
	// mates are the others of its process group: what is done to it is done to them.
	mates []*Child
	group int // the process group's id
	words *captured

	unasked *unasked // hears what nobody here did to it

	mu         sync.Mutex // held while it is signalled or reaped: until reaped, its pid is its own
	ended      bool
	err        error
	asked      bool // to end
	stopping   bool // Stop was called, and Continue was not since
	continuing bool // which the kernel has not told yet
	strange    bool // somebody else has stopped it
	stays      bool // it is to run until it is asked to end
	struck     bool // somebody else has ended it
}

// newChild takes charge of a started command. Nobody else may wait for it.
func newChild(name string, cmd *exec.Cmd, u *unasked) (*Child, error) {
	c := &Child{name: name, pid: cmd.Process.Pid, group: cmd.Process.Pid, done: make(chan struct{}), unasked: u}
	s, err := files.StatOf(c.pid) // not reaped yet, so it is there
	c.start = s.Start
	go c.reap(cmd)
	return c, err
}

// PID is its process id.
func (c *Child) PID() int { return c.pid }

// Words is the beginning and the end of what it has written so far. See Group.Start.
func (c *Child) Words() string { return c.words.read() }

// Done is closed once it has ended and was reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err says how it ended: nil is exit status 0. It waits for the end.
func (c *Child) Err() error {
	<-c.done
	return c.err
}

// Stop stops all its threads, and returns once /proc says so.
func (c *Child) Stop() (readBack string, err error) {
	return c.drive("stop", unix.SIGSTOP, func(states string) bool { return strings.Trim(states, "T") == "" })
}

// Continue lets it go on, and returns once /proc says so.
func (c *Child) Continue() (readBack string, err error) {
	return c.drive("continue", unix.SIGCONT, func(states string) bool { return !strings.Contains(states, "T") })
}

// Kill ends it without warning and reaps it. One that has ended is no error.
func (c *Child) Kill() error {
	if err := c.signal(unix.SIGKILL); err != nil && !errors.Is(err, ErrEnded) {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(signalBound):
		return Late(fmt.Sprintf("kill %s: process %d is still there after %v", c.name, c.pid, signalBound))
	}
}

// signal sends to the whole process group: a client may have started a program.
func (c *Child) signal(s unix.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return ErrEnded
	}
	for _, m := range c.mates {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.expect(s)
	}
	c.expect(s)
	return unix.Kill(-c.group, s)
}

// expect takes in that it is about to get a signal. The lock is held.
func (c *Child) expect(s unix.Signal) {
	c.look() // what was until now is by the words of then
	switch s {
	case unix.SIGSTOP:
		c.stopping = true
	case unix.SIGCONT:
		c.continuing = c.stopping || c.strange
		c.stopping = false
	case unix.SIGKILL:
		if is, err := files.StatOf(c.pid); err != nil || !is.Ends() { // else another was first
			c.asked = true
		}
	}
}

func (c *Child) drive(verb string, s unix.Signal, reached func(states string) bool) (string, error) {
	if err := c.signal(s); err != nil {
		return "", fmt.Errorf("%s %s: %w", verb, c.name, err)
	}
	var others []string
	end := time.Now().Add(signalBound)
	for _, m := range c.mates {
		switch back, err := m.await(verb, end, reached); {
		case err == nil:
			others = append(others, back)
		case !errors.Is(err, ErrEnded):
			return "", err
		}
	}
	back, err := c.await(verb, end, reached)
	return strings.Join(append([]string{back}, others...), "; "), err
}

// await waits until its threads are as a signal makes them.
func (c *Child) await(verb string, end time.Time, reached func(states string) bool) (string, error) {
	for ; ; time.Sleep(100 * time.Microsecond) {
		states, err := threads(c.pid)
		switch {
		case files.ProcessGone(err), err == nil && !files.ProcessRuns(c.pid, c.start):
			return "", fmt.Errorf("%s %s: %w", verb, c.name, ErrEnded)
		case err != nil:
			return "", fmt.Errorf("%s %s: %w", verb, c.name, err)
		case reached(states):
			return fmt.Sprintf("process %d: threads %s", c.pid, states), nil
		case time.Now().After(end):
			return "", fmt.Errorf("%s %s: threads of process %d are %s after %v", verb, c.name, c.pid, states, signalBound)
		}
	}
}

// threads returns the state letter of each thread of a process.
func threads(pid int) (string, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var states []byte
	for _, t := range tasks {
		s, err := files.ReadStat(dir + "/" + t.Name() + "/stat")
		if files.ProcessGone(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		states = append(states, s.State)
	}
	return string(states), nil
}
