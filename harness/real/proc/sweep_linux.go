package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"lockpick/harness/owned"
)

const (
	childrenFile = "children" // in a run's directory: a line "pid start name" for each child

	// mostRecorded bounds that file, in bytes: tens of thousands of children.
	mostRecorded = 1 << 20
)

// putAway ends the processes that a dead owner has left, and unmounts its disks. It leaves a
// folder alone where something is not as lockpick makes it.
func putAway(left owned.Left) error {
	path, err := os.Readlink(handle(left.Dir))
	if err != nil {
		return err
	}
	disks, err := disksBelow(path)
	if err != nil {
		return err
	}
	record, err := readRecord(left.Dir)
	if err != nil {
		return err
	}
	for _, line := range strings.Split(record, "\n") {
		var pid int
		var start uint64
		if n, _ := fmt.Sscan(line, &pid, &start); n == 2 && pid > 1 && left.Known {
			if err := endChild(pid, start, left.Dir, path); err != nil {
				return err
			}
		}
	}
	for _, d := range disks {
		if err := d.unmount(left.Dir, path); err != nil {
			return err
		}
	}
	return nil
}

// readRecord reads the record of children in a run's directory; a run that was killed at
// once has none.
func readRecord(dir *os.File) (string, error) {
	fd, err := unix.Openat(int(dir.Fd()), childrenFile, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%w: its %s: %w", owned.ErrLeave, childrenFile, err)
	}
	f := os.NewFile(uintptr(fd), childrenFile)
	defer f.Close()
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return "", err
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG || int(is.Uid) != os.Geteuid() || is.Size > mostRecorded {
		return "", fmt.Errorf("%w: its %s is not what lockpick writes", owned.ErrLeave, childrenFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, mostRecorded))
	return string(text), err
}

// endChild kills a recorded process if it is the one that was started, and waits until it
// has ended: it may still write into the directory.
func endChild(pid int, start uint64, dir *os.File, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalBound)
	defer cancel()
	err := killIf(ctx, pid, func() bool {
		s, err := owned.StatOf(pid)
		return err == nil && !s.Ended() && s.Start == start && within(pid, dir, path)
	})
	switch {
	case errors.Is(err, errHeldBack):
		return fmt.Errorf("%w: process %d: %w", owned.ErrLeave, pid, err)
	case err != nil:
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return nil
}

// within says whether a process works in a directory, or has a file open there: all that a
// Group starts does. Paths are compared first, for to look at a file of another file system
// may take for ever; then what they lead to, for in another mount namespace the same path is
// something else.
func within(pid int, dir *os.File, path string) bool {
	open := []string{fmt.Sprintf("/proc/%d/cwd", pid)}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range append(open, fds...) {
		to, err := os.Readlink(link)
		if err != nil {
			continue
		}
		rest, ok := strings.CutPrefix(to, path)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		var has, want unix.Stat_t
		err = unix.Fstatat(int(dir.Fd()), "."+rest, &want, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Join(err, unix.Stat(link, &has)) == nil && has.Dev == want.Dev && has.Ino == want.Ino {
			return true
		}
	}
	return false
}
