//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/internal/files"
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

// DiskName is what the disks of runs are called where mounts are listed.
const DiskName = "lockpick"

// Unmount unmounts a FUSE file system that lockpick mounted. MNT_FORCE ends its connection: another
// mount namespace that was made meanwhile has it mounted as well, and would keep it for as long
// as that lasts. Who has just ended may keep it busy for a moment; after that it is detached.
func Unmount(dir string) error {
	var err error
	for range 20 {
		if err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_FORCE); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if errors.Is(err, unix.EPERM) { // an ordinary user's
		out, failed := exec.Command("fusermount3", "-u", "-z", "--", dir).CombinedOutput()
		if failed == nil {
			return nil
		}
		err = fmt.Errorf("%w; %w: %s", err, failed, strings.TrimSpace(string(out)))
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

type mount struct{ point, kind, source, settings string }

// ours says whether it is a disk that this user has mounted.
func (m mount) ours() bool {
	return m.kind == "fuse."+DiskName && m.source == DiskName &&
		slices.Contains(strings.Split(m.settings, ","), fmt.Sprintf("user_id=%d", os.Geteuid()))
}

// disksBelow lists the disks that are mounted below a directory, the last that was mounted
// first. Where something else is mounted, nothing of the directory is to be touched.
func disksBelow(dir string) ([]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find mounts: %w", err)
	}
	var out []mount
	for _, m := range mounts(string(b)) {
		if m.point != dir && !strings.HasPrefix(m.point, dir+"/") {
			continue
		}
		if !m.ours() {
			return nil, fmt.Errorf("%w: %s is mounted on %s", files.ErrLeave, m.source, m.point)
		}
		out = append([]mount{m}, out...)
	}
	return out, nil
}

func mounts(mountinfo string) []mount {
	// A blank, a tab, a newline and a backslash are written as octal numbers.
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []mount
	for line := range strings.Lines(mountinfo) {
		where, what, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(where), strings.Fields(what)
		if len(f) < 5 || len(g) < 3 {
			continue
		}
		out = append(out, mount{point: plain.Replace(f[4]), kind: g[0], source: plain.Replace(g[1]), settings: g[2]})
	}
	return out
}
