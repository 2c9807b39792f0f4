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

	// maxRecord is the maximum size of that file, in bytes. It suffices for tens of thousands of
	// children.
	maxRecord = 1 << 20
)

// cleanUpRun kills the processes that a dead owner left behind, and unmounts its disks. It does
// not touch a directory whose contents don't look like those that lockpick creates.
func cleanUpRun(dir string, known bool) error {
	dir, err := filepath.EvalSymlinks(dir) // the form that /proc uses
	if err != nil {
		return err
	}
	disks, err := disksBelow(dir)
	if err != nil {
		return err
	}
	record, err := files.ReadIn(dir, childrenFile, maxRecord)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a run that was killed early has no such file
		return fmt.Errorf("%w: %w", files.ErrKeepFolder, err)
	}
	for line := range strings.Lines(string(record)) {
		var pid int
		var start uint64
		if n, _ := fmt.Sscan(line, &pid, &start); n == 2 && pid > 1 && known {
			if err := killRecorded(pid, start, dir); err != nil {
				return err
			}
		}
	}
	if known {
		if err := killMarked(dir); err != nil {
			return err
		}
	}
	for _, d := range disks {
		if err := Unmount(d.point); err != nil {
			if left, _ := disksBelow(dir); slices.Contains(left, d) { // otherwise another lockpick was faster
				return err
			}
		}
	}
	return nil
}

// killRecorded kills a recorded process, if the PID still belongs to it, and waits until it has
// exited. Until then, the process might write to the directory.
func killRecorded(pid int, start uint64, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	err := killIf(ctx, pid, func() bool {
		s, err := files.StatOf(pid)
		return err == nil && !s.Ended() && s.Start == start && usesDir(pid, dir)
	})
	switch {
	case errors.Is(err, errNoPidfd):
		return fmt.Errorf("%w: process %d: %w", files.ErrKeepFolder, pid, err)
	case err != nil:
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return nil
}

// runEnv is an environment variable that is set for all processes of a run and contains the path
// of the run's directory. A run uses it to find processes that its children left running, such as
// a daemon with its own session and working directory.
const runEnv = "LOCKPICK_RUN"

// killMarked kills the processes whose environment names the directory, and waits until they have
// exited. It repeats the search until it finds none, because they may start others before they are
// killed. It does not find a process that hides or replaces its environment.
func killMarked(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
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
				text, err := os.ReadFile(name) // fails for another user's process
				return err == nil && bytes.Contains(append([]byte{0}, text...), append([]byte{0}, mark...))
			}
			if err != nil || pid == os.Getpid() || !marked() {
				continue
			}
			found = true
			if err := killIf(ctx, pid, marked); err != nil {
				return fmt.Errorf("end process %d, left by the run: %w", pid, err)
			}
		}
		if !found {
			return nil
		}
	}
}

// usesDir reports whether the working directory or an open file of a process is below a directory.
// This is the case for everything that a Group starts.
func usesDir(pid int, dir string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(append(links, fmt.Sprintf("/proc/%d/cwd", pid)), func(link string) bool {
		to, err := os.Readlink(link)
		return err == nil && (to == dir || strings.HasPrefix(to, dir+"/"))
	})
}
