//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Codes by which the kernel tells a parent what became of a child, see waitid(2).
const (
	childDumped    = 3 // like smaller ones, of one that has ended
	childStopped   = 5
	childContinued = 6
)

// reap sees what becomes of the child until it has ended, and reaps it. The kernel tells of
// each stop, however short; if the child has gone on since, of that.
func (c *Child) reap(cmd *exec.Cmd) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WCONTINUED|unix.WNOWAIT, nil)
		if err == nil && info.Code > childDumped { // it has not ended
			c.mu.Lock()
			c.look()
			c.mu.Unlock()
			continue
		}
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	c.ended, c.err = true, cmd.Wait()
	if !c.asked {
		c.tellEnd()
	}
	c.mu.Unlock()
	close(c.done)
}

// look takes in that it was stopped or went on, if the kernel has not told it yet. The lock
// is held.
func (c *Child) look() {
	var info unix.Siginfo
	if c.ended || unix.Waitid(unix.P_PID, c.pid, &info, unix.WSTOPPED|unix.WCONTINUED|unix.WNOHANG, nil) != nil || info.Code == 0 {
		return
	}
	expected := c.continuing
	c.continuing = false
	tell := func(what Happening, seen string) {
		c.unasked.add(Unasked{Child: c.name, What: what, Status: -1, Cause: fmt.Sprintf("process %d was %s", c.pid, seen)})
	}
	switch {
	case info.Code == childStopped && !c.stopping:
		c.strange = true
		tell(Stopped, "stopped by a signal from outside")
	case info.Code != childContinued:
	case c.strange: // its stop is recorded
		c.strange = false
	case c.stopping:
		tell(Continued, "continued by a signal from outside, while it was paused")
	case !expected: // it was stopped before, too shortly to be seen
		tell(Stopped, "stopped by a signal from outside")
	}
}

// tellEnd tells that it has ended, unless it may end by itself and did. The lock is held.
func (c *Child) tellEnd() {
	x := Unasked{Child: c.name, What: Ended, Status: -1, Cause: fmt.Sprintf("process %d ended: %v", c.pid, c.err)}
	if exit, ok := errors.AsType[*exec.ExitError](c.err); ok {
		x.Status = exit.ExitCode() // -1: by a signal
		if is, ok := exit.Sys().(syscall.WaitStatus); ok && is.Signaled() {
			x.Cause = fmt.Sprintf("process %d was ended by signal %d (%v)", c.pid, is.Signal(), is.Signal())
		}
	} else if c.err == nil {
		x.Status = 0
	}
	c.struck = x.Status < 0
	if x.Status >= 0 {
		if !c.stays {
			return
		}
		x.Cause = fmt.Sprintf("process %d ended with exit status %d", c.pid, x.Status)
	}
	c.unasked.add(x)
}

// Stays says that from now on it is to run until it is asked to end: to end by itself is
// Unasked, too.
func (c *Child) Stays() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stays = true
	if c.ended && !c.asked {
		c.tellEnd()
	}
}

// Struck says whether a signal has ended it that was not asked for. It waits for the end.
func (c *Child) Struck() bool {
	<-c.done
	return c.struck
}

// mayEnd says whether it is just being asked to end, by other means than a signal.
func (c *Child) mayEnd(may bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = may
}

// Happening is what becomes of a child.
type Happening int

const (
	Ended Happening = iota
	Stopped
	Continued // in the midst of a pause that the Group had asked for
)

// Unasked is what became of a child that its Group did not do: somebody else sent it a
// signal, or it ended by itself.
type Unasked struct {
	Child string // its name
	What  Happening
	// Status is the exit status with which it ended; -1: it ended by a signal, or did not end.
	Status int
	Cause  string // what was seen
}

// unasked is what was not asked for, until somebody listens.
type unasked struct {
	mu     sync.Mutex
	tell   func(Unasked)
	untold []Unasked
}

func (u *unasked) add(x Unasked) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tell == nil {
		u.untold = append(u.untold, x)
		return
	}
	u.tell(x)
}
