package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stat is what /proc says of a process or thread.
type processStat struct {
	State byte   // R, S, D, T (stopped), t, Z (ended, not reaped), X
	Flags uint64 // of the kernel
	Start uint64 // clock ticks since the machine started: with the pid, an identity
	Used  uint64 // clock ticks of a processor, its own and the kernel's for it
}

// exiting is the kernel's PF_EXITING: it is on its way to the end, its files closed or not.
const exiting = 0x4

// Ends says whether it has ended, or is about to.
func (s processStat) Ends() bool { return s.Ended() || s.Flags&exiting != 0 }

// Ended says whether it runs no more.
func (s processStat) Ended() bool { return s.State == 'Z' || s.State == 'X' }

// ReadStat reads a file that is called stat.
func ReadStat(path string) (processStat, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return processStat{}, err
	}
	// "pid (comm) state ppid …": comm may hold anything, so count from its last bracket.
	_, rest, ok := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 20 {
		return processStat{}, fmt.Errorf("%s: not what proc(5) says", path)
	}
	start, err := strconv.ParseUint(f[19], 10, 64) // field 22
	flags, bad := strconv.ParseUint(f[6], 10, 64)
	own, worse := strconv.ParseUint(f[11], 10, 64)
	kernel, worst := strconv.ParseUint(f[12], 10, 64)
	return processStat{State: f[0][0], Flags: flags, Start: start, Used: own + kernel}, errors.Join(err, bad, worse, worst)
}

// StatOf reads the state of a process; one that is gone is X.
func StatOf(pid int) (processStat, error) {
	s, err := ReadStat(fmt.Sprintf("/proc/%d/stat", pid))
	if !ProcessGone(err) {
		return s, err
	}
	// Where /proc hides the processes of others, a signal tells them from those that are gone.
	if unix.Kill(pid, 0) == unix.EPERM {
		return processStat{}, fmt.Errorf("process %d is hidden: %w", pid, err)
	}
	return processStat{State: 'X'}, nil
}

// Gone says whether a file of /proc is not there because its process is not.
func ProcessGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// Runs says whether the process that had this pid at this start time still runs; when in
// doubt, it does.
func ProcessRuns(pid int, start uint64) bool {
	s, err := StatOf(pid)
	return err != nil || !s.Ended() && s.Start == start
}
