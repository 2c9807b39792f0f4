package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Self is the owner that this process is.
func Self() (Owner, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Owner{}, fmt.Errorf("read boot id: %w", err)
	}
	space, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	if err != nil {
		return Owner{}, fmt.Errorf("read PID namespace: %w", err)
	}
	s, err := StatOf(os.Getpid())
	if err != nil {
		return Owner{}, fmt.Errorf("read own start time: %w", err)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(string(boot)), "-")
	return Owner{Boot: id, Space: strings.Trim(space, "pid:[]"), PID: os.Getpid(), Start: s.Start}, nil
}

// near says whether o would be seen from self if it ran.
func (o Owner) near(self Owner) bool { return o.Boot == self.Boot && o.Space == self.Space }

func (o Owner) runs() bool { return ProcessRuns(o.PID, o.Start) }

// processStat is the part of /proc/PID/stat that is used here, of a process or a thread.
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

// ProcessGone says whether a file of /proc is not there because its process is not.
func ProcessGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// ProcessRuns says whether the process that had this pid at this start time still runs; when in
// doubt, it does.
func ProcessRuns(pid int, start uint64) bool {
	s, err := StatOf(pid)
	return err != nil || !s.Ended() && s.Start == start
}

// ProcessQuit has a Go program print the stacks of its goroutines, and end. Of one that runs Go prints
// the stack only if the signal comes to its own thread or can stop it in time, so the thread that
// is busiest gets it. On a busy machine that one may wait for its turn, so there are several looks.
func ProcessQuit(p *os.Process) error {
	thread, most := p.Pid, uint64(0)
	before := used(p.Pid)
	for looks := 0; looks < 10 && most == 0; looks++ {
		time.Sleep(100 * time.Millisecond)
		for id, now := range used(p.Pid) {
			if now-before[id] > most {
				thread, most = id, now-before[id]
			}
		}
	}
	return unix.Tgkill(p.Pid, thread, unix.SIGQUIT)
}

// used is the time of a processor that the threads of a process have had, in clock ticks.
func used(pid int) map[int]uint64 {
	all := map[int]uint64{}
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is a good one
	for _, path := range stats {
		s, err := ReadStat(path)
		if id, bad := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && bad == nil { // it may have just ended
			all[id] = s.Used
		}
	}
	return all
}
