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

// Codes for a child's state changes. See waitid(2).
const (
	childDumped    = 3 // this code or a lower one means that the child has exited
	childStopped   = 5
	childContinued = 6
)

// reap follows the child's state changes until the child has exited, and then reaps it. The kernel
// reports every stop, however short; if the child has already continued, the kernel reports that
// instead.
func (c *Child) reap(cmd *exec.Cmd) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WCONTINUED|unix.WNOWAIT, nil)
		if err == nil && info.Code > childDumped { // the child has not exited
			c.mu.Lock()
			c.checkState()
			c.mu.Unlock()
			continue
		}
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	c.ended, c.err = true, cmd.Wait()
	if !c.endRequested {
		c.reportEnd()
	}
	c.mu.Unlock()
	close(c.done)
}

// checkState handles a stop or continue that has not been handled yet. The caller holds the lock.
func (c *Child) checkState() {
	var info unix.Siginfo
	if c.ended || unix.Waitid(unix.P_PID, c.pid, &info, unix.WSTOPPED|unix.WCONTINUED|unix.WNOHANG, nil) != nil || info.Code == 0 {
		return
	}
	expected := c.continuing
	c.continuing = false
	report := func(kind EventKind, description string) {
		c.unexpected.add(UnexpectedEvent{Child: c.name, Kind: kind, Status: -1, Cause: fmt.Sprintf("process %d was %s", c.pid, description)})
	}
	switch {
	case info.Code == childStopped && !c.stopping:
		c.stoppedExternally = true
		report(EventStopped, "stopped by a signal from outside")
	case info.Code != childContinued:
	case c.stoppedExternally: // the stop has been reported
		c.stoppedExternally = false
	case c.stopping:
		report(EventContinued, "continued by a signal from outside, while it was paused")
	case !expected: // the stop was too short to be seen
		report(EventStopped, "stopped by a signal from outside")
	}
}

// reportEnd reports that the child has ended, unless it exited on its own and was allowed to. The
// caller holds the lock.
func (c *Child) reportEnd() {
	x := UnexpectedEvent{Child: c.name, Kind: EventEnded, Status: -1, Cause: fmt.Sprintf("process %d ended: %v", c.pid, c.err)}
	if exit, ok := errors.AsType[*exec.ExitError](c.err); ok {
		x.Status = exit.ExitCode() // -1 if a signal ended the child
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			x.Cause = fmt.Sprintf("process %d was ended by signal %d (%v)", c.pid, status.Signal(), status.Signal())
		}
	} else if c.err == nil {
		x.Status = 0
	}
	c.killedExternally = x.Status < 0
	if x.Status >= 0 {
		if !c.expectedToRun {
			return
		}
		x.Cause = fmt.Sprintf("process %d ended with exit status %d", c.pid, x.Status)
	}
	c.unexpected.add(x)
}

// ExpectToRun declares that the child must run until it is asked to exit. From then on, an exit on
// its own is an unexpected event too.
func (c *Child) ExpectToRun() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expectedToRun = true
	if c.ended && !c.endRequested {
		c.reportEnd()
	}
}

// KilledExternally waits for the child to exit and reports whether a signal from outside ended it.
func (c *Child) KilledExternally() bool {
	<-c.done
	return c.killedExternally
}

// setEndRequested sets whether the child is being asked to exit by something other than a signal.
func (c *Child) setEndRequested(requested bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endRequested = requested
}

type EventKind int

const (
	EventEnded EventKind = iota
	EventStopped
	EventContinued // during a pause that the Group had requested
)

// UnexpectedEvent is a state change of a child that its Group did not cause: the child received a
// signal from outside, or exited on its own.
type UnexpectedEvent struct {
	Child string // name of the child
	Kind  EventKind
	// Status is the exit status, or -1 if a signal killed the child or it has not exited.
	Status int
	Cause  string // description of the event
}

// unexpectedEvents queues events until Listen is called.
type unexpectedEvents struct {
	mu     sync.Mutex
	report func(UnexpectedEvent)
	queue  []UnexpectedEvent
}

func (u *unexpectedEvents) add(x UnexpectedEvent) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.report == nil {
		u.queue = append(u.queue, x)
		return
	}
	u.report(x)
}

// DiskName is the name of lockpick's disks in the list of mounts.
const DiskName = "lockpick"

// Unmount unmounts a FUSE file system that lockpick has mounted. MNT_FORCE ends the connection to
// the kernel: a mount namespace created in the meantime has a copy of the mount, which would
// otherwise keep the file system alive as long as the namespace exists. A process that has just
// exited may keep the file system busy for a moment. If it stays busy, Unmount detaches it.
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
	if errors.Is(err, unix.EPERM) { // mounted by an ordinary user
		out, fusermountErr := exec.Command("fusermount3", "-u", "-z", "--", dir).CombinedOutput()
		if fusermountErr == nil {
			return nil
		}
		err = fmt.Errorf("%w; %w: %s", err, fusermountErr, strings.TrimSpace(string(out)))
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

type mount struct{ point, kind, source, options string }

// isLockpickDisk reports whether the mount is a lockpick disk of the current user.
func (m mount) isLockpickDisk() bool {
	return m.kind == "fuse."+DiskName && m.source == DiskName &&
		slices.Contains(strings.Split(m.options, ","), fmt.Sprintf("user_id=%d", os.Geteuid()))
}

// disksBelow lists the disks mounted at or below a directory, most recent first. If anything else
// is mounted there, the error is ErrKeepFolder, and the directory must not be touched.
func disksBelow(dir string) ([]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find mounts: %w", err)
	}
	var disks []mount
	for _, m := range parseMounts(string(b)) {
		if m.point != dir && !strings.HasPrefix(m.point, dir+"/") {
			continue
		}
		if !m.isLockpickDisk() {
			return nil, fmt.Errorf("%w: %s is mounted on %s", files.ErrKeepFolder, m.source, m.point)
		}
		disks = append([]mount{m}, disks...)
	}
	return disks, nil
}

func parseMounts(mountinfo string) []mount {
	// The kernel escapes spaces, tabs, newlines and backslashes in octal.
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []mount
	for line := range strings.Lines(mountinfo) {
		left, right, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if len(f) < 5 || len(g) < 3 {
			continue
		}
		out = append(out, mount{point: unescape.Replace(f[4]), kind: g[0], source: unescape.Replace(g[1]), options: g[2]})
	}
	return out
}
