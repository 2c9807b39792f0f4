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

// CurrentOwner returns this process as an Owner.
func CurrentOwner() (Owner, error) {
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
		return Owner{}, fmt.Errorf("read start time of this process: %w", err)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(string(boot)), "-")
	return Owner{BootID: id, Namespace: strings.Trim(space, "pid:[]"), PID: os.Getpid(), Start: s.Start}, nil
}

// visibleFrom reports whether self could see o if o were running.
func (o Owner) visibleFrom(self Owner) bool {
	return o.BootID == self.BootID && o.Namespace == self.Namespace
}

func (o Owner) isRunning() bool { return ProcessRuns(o.PID, o.Start) }

// processStat contains the fields of /proc/PID/stat that are used here, for a process or a thread.
type processStat struct {
	State    byte   // R, S, D, T (stopped), t, Z (ended, not reaped), X
	Flags    uint64 // kernel flags
	Start    uint64 // clock ticks since boot; identifies the process together with the PID
	CPUTicks uint64 // user and system CPU time, in clock ticks
}

// flagExiting is the kernel's PF_EXITING: the process is ending, but its files may still be open.
const flagExiting = 0x4

// Ending reports whether the process has ended or is about to end.
func (s processStat) Ending() bool { return s.Ended() || s.Flags&flagExiting != 0 }

func (s processStat) Ended() bool { return s.State == 'Z' || s.State == 'X' }

// ReadStat parses a /proc/…/stat file.
func ReadStat(path string) (processStat, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return processStat{}, err
	}
	// "pid (comm) state ppid …": comm may contain anything, so count from its last parenthesis.
	_, rest, ok := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 20 {
		return processStat{}, fmt.Errorf("%s: not in the format of proc(5)", path)
	}
	start, err := strconv.ParseUint(f[19], 10, 64) // field 22
	flags, flagsErr := strconv.ParseUint(f[6], 10, 64)
	userTicks, userErr := strconv.ParseUint(f[11], 10, 64)
	systemTicks, systemErr := strconv.ParseUint(f[12], 10, 64)
	return processStat{State: f[0][0], Flags: flags, Start: start, CPUTicks: userTicks + systemTicks}, errors.Join(err, flagsErr, userErr, systemErr)
}

// StatOf reads the state of a process. A missing process has state X.
func StatOf(pid int) (processStat, error) {
	s, err := ReadStat(fmt.Sprintf("/proc/%d/stat", pid))
	if !IsProcessGone(err) {
		return s, err
	}
	// If /proc hides other users' processes, a signal distinguishes hidden processes from missing
	// ones.
	if unix.Kill(pid, 0) == unix.EPERM {
		return processStat{}, fmt.Errorf("process %d is hidden: %w", pid, err)
	}
	return processStat{State: 'X'}, nil
}

// IsProcessGone reports whether a file in /proc is missing because its process is.
func IsProcessGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// ProcessRuns reports whether the process with this PID and start time is still running. If this is
// unknown, it returns true.
func ProcessRuns(pid int, start uint64) bool {
	s, err := StatOf(pid)
	return err != nil || !s.Ended() && s.Start == start
}

// QuitProcess makes a Go program print its goroutines' stacks and exit. Go prints a running
// goroutine's stack only if the goroutine's own thread gets the signal or can be stopped in time,
// so the signal goes to the busiest thread. CPU times are sampled repeatedly, because on a busy
// machine that thread may have to wait for its turn.
func QuitProcess(p *os.Process) error {
	thread, maxTicks := p.Pid, uint64(0)
	before := cpuTicks(p.Pid)
	for samples := 0; samples < 10 && maxTicks == 0; samples++ {
		time.Sleep(100 * time.Millisecond)
		for id, now := range cpuTicks(p.Pid) {
			if now-before[id] > maxTicks {
				thread, maxTicks = id, now-before[id]
			}
		}
	}
	return unix.Tgkill(p.Pid, thread, unix.SIGQUIT)
}

// cpuTicks returns the CPU time used by each thread of a process, in clock ticks.
func cpuTicks(pid int) map[int]uint64 {
	out := map[int]uint64{}
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is valid
	for _, path := range stats {
		s, err := ReadStat(path)
		if id, parseErr := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && parseErr == nil { // the thread may just have ended
			out[id] = s.CPUTicks
		}
	}
	return out
}
