package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lockpick/internal/files"
)

const (
	childrenFile = "children" // in a run's directory: a line "pid start name" for each child

	// mostRecorded bounds that file, in bytes: tens of thousands of children.
	mostRecorded = 1 << 20
)

// putAway ends the processes that a dead owner has left, and unmounts its disks. It leaves a
// folder alone where something is not as lockpick makes it.
func putAway(dir string, known bool) error {
	dir, err := filepath.EvalSymlinks(dir) // as /proc names it
	if err != nil {
		return err
	}
	disks, err := disksBelow(dir)
	if err != nil {
		return err
	}
	record, err := files.ReadIn(dir, childrenFile, mostRecorded)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a run that was killed at once has none
		return fmt.Errorf("%w: %w", files.ErrLeave, err)
	}
	for line := range strings.Lines(string(record)) {
		var pid int
		var start uint64
		if n, _ := fmt.Sscan(line, &pid, &start); n == 2 && pid > 1 && known {
			if err := endChild(pid, start, dir); err != nil {
				return err
			}
		}
	}
	if known {
		if err := endMarked(dir); err != nil {
			return err
		}
	}
	for _, d := range disks {
		if err := Unmount(d.point); err != nil {
			if left, _ := disksBelow(dir); slices.Contains(left, d) { // else another lockpick was faster
				return err
			}
		}
	}
	return nil
}

// endChild kills a recorded process if it is the one that was started, and waits until it
// has ended: it may still write into the directory.
func endChild(pid int, start uint64, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalBound)
	defer cancel()
	err := killIf(ctx, pid, func() bool {
		s, err := files.StatOf(pid)
		return err == nil && !s.Ended() && s.Start == start && within(pid, dir)
	})
	switch {
	case errors.Is(err, errHeldBack):
		return fmt.Errorf("%w: process %d: %w", files.ErrLeave, pid, err)
	case err != nil:
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return nil
}

// runEnv is set in the environment of all processes of a run, and names its directory. By it a run
// finds what they started and left running, as a daemon in a session and a directory of its own.
const runEnv = "LOCKPICK_RUN"

// endMarked kills the processes whose environment names the directory, and waits until they
// have ended. It looks again until there are none, because they may start others meanwhile. A
// process that hides its environment, or replaces it, is not found.
func endMarked(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalBound)
	defer cancel()
	mark := []byte(runEnv + "=" + dir + "\x00")
	for {
		found := false
		names, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			return err
		}
		for _, name := range names {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			marked := func() bool {
				text, err := os.ReadFile(name) // of another user's process it can't be read
				return err == nil && bytes.Contains(append([]byte{0}, text...), append([]byte{0}, mark...))
			}
			if err != nil || pid == os.Getpid() || !marked() {
				continue
			}
			found = true
			if err := killIf(ctx, pid, marked); err != nil {
				return fmt.Errorf("end process %d, which the run left: %w", pid, err)
			}
		}
		if !found {
			return nil
		}
	}
}

// within says whether a process works in a directory, or has a file open there: all that a
// Group starts does.
func within(pid int, dir string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(append(links, fmt.Sprintf("/proc/%d/cwd", pid)), func(link string) bool {
		to, err := os.Readlink(link)
		return err == nil && (to == dir || strings.HasPrefix(to, dir+"/"))
	})
}
