//go:build linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"lockpick/internal/files"
)

// InContainer says whether a process of this machine runs in the container of that id, as
// its control groups tell.
func InContainer(pid int, id string) bool {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || pid <= 1 || len(id) < 12 || !strings.Contains(string(groups), id) {
		return false
	}
	is, err := files.StatOf(pid)
	return err == nil && !is.Ended()
}

// StoppedIn is a process that a signal has stopped: that process of this machine, in the
// container of that id, or, if it matters, one that it has started; 0: there is none.
func StoppedIn(pid int, id string, started bool) int {
	if !InContainer(pid, id) {
		return 0
	}
	if s, err := files.StatOf(pid); err == nil && s.State == 'T' {
		return pid
	}
	if !started {
		return 0
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0
	}
	for _, t := range tasks {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for _, text := range strings.Fields(string(children)) {
			if child, err := strconv.Atoi(text); err == nil {
				if stopped := StoppedIn(child, id, false); stopped > 0 {
					return stopped
				}
			}
		}
	}
	return 0
}

// KillContained kills a process in the container of that id, and returns when it is
// gone. One that has ended already is no error.
func KillContained(ctx context.Context, pid int, id string) error {
	if err := killIf(ctx, pid, func() bool { return InContainer(pid, id) }); err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// killIf kills a process if it is the one that is meant, and returns when it is gone. From
// the first it is held by a descriptor, so that its number can't become another's meanwhile.
func killIf(ctx context.Context, pid int, meant func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errHeldBack, err)
	}
	defer unix.Close(fd)
	if !meant() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 10); n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return fmt.Errorf("it is still there: %w", context.Cause(ctx))
}

// errHeldBack says that a process can't be held by a descriptor.
var errHeldBack = errors.New("open its descriptor")

// Frozen says whether the kernel keeps a process of this machine frozen with its control
// group, as a paused container's are, and whether that can be known: of the first version
// of control groups by freezer.state, of the second by cgroup.events (Documentation of
// Linux, admin-guide/cgroup-v1/freezer-subsystem and admin-guide/cgroup-v2).
func Frozen(pid int) (frozen, known bool) {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false, false
	}
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch controllers {
		case "freezer":
			state, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", path, "freezer.state"))
			if err == nil {
				return strings.TrimSpace(string(state)) != "THAWED", true
			}
		case "":
			events, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", path, "cgroup.events"))
			if err == nil && strings.Contains(string(events), "frozen") {
				return strings.Contains(string(events), "frozen 1"), true
			}
		}
	}
	return false, false
}
