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
	childrenFile = "children" // file in a run's directory with a line "pid start name" for each child
	maxRecordLen = 1 << 20    // maximum size of this file in bytes, enough for tens of thousands of children
)

// cleanUpRun kills the processes that a dead owner left behind, and unmounts its disks. It does not
// touch a directory whose contents don't look like lockpick's.
func cleanUpRun(dir string, known bool) error {
	dir, err := filepath.EvalSymlinks(dir) // the same form as in /proc
	if err != nil {
		return err
	}
	disks, err := disksBelow(dir)
	if err != nil {
		return err
	}
	record, err := files.ReadIn(dir, childrenFile, maxRecordLen)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a run that was killed early has none
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
			if remaining, _ := disksBelow(dir); slices.Contains(remaining, d) { // otherwise, another lockpick process was faster
				return err
			}
		}
	}
	return nil
}

// killRecorded kills a recorded process, unless its PID now belongs to another one. It waits until
// the process has exited, because until then the process might write to the directory.
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

// runEnv is an environment variable of all processes of a run, with the path of the run's
// directory. It lets a run find processes left running by its children, such as a daemon with its
// own session and working directory.
const runEnv = "LOCKPICK_RUN"

// killMarked kills the processes whose environment names the directory, and waits until they have
// exited. They may start others before they are killed, so killMarked repeats the search until it
// finds none. It does not find a process that hides or replaces its environment.
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
			isMarked := func() bool {
				text, err := os.ReadFile(name) // fails for another user's process
				return err == nil && bytes.Contains(append([]byte{0}, text...), append([]byte{0}, mark...))
			}
			if err != nil || pid == os.Getpid() || !isMarked() {
				continue
			}
			found = true
			if err := killIf(ctx, pid, isMarked); err != nil {
				return fmt.Errorf("end process %d, left by the run: %w", pid, err)
			}
		}
		if !found {
			return nil
		}
	}
}

// usesDir reports whether the working directory or an open file of a process is in the given
// directory. Everything that a Group starts meets this condition.
func usesDir(pid int, dir string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(append(links, fmt.Sprintf("/proc/%d/cwd", pid)), func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && (target == dir || strings.HasPrefix(target, dir+"/"))
	})
}
