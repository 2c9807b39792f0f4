//go:build linux

package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stat is what /proc says of a process or thread.
type stat struct {
	state byte   // R, S, D, T (stopped), t, Z (ended, not reaped), X
	flags uint64 // of the kernel
	start uint64 // clock ticks since the machine started: with the pid, an identity
}

// exiting is the kernel's PF_EXITING: it is on its way to the end, its files closed or not.
const exiting = 0x4

func (s stat) ends() bool { return s.ended() || s.flags&exiting != 0 }

func (s stat) ended() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(path string) (stat, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return stat{}, err
	}
	// "pid (comm) state ppid …": comm may hold anything, so count from its last bracket.
	_, rest, ok := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 20 {
		return stat{}, fmt.Errorf("%s: not what proc(5) says", path)
	}
	start, err := strconv.ParseUint(f[19], 10, 64) // field 22
	flags, bad := strconv.ParseUint(f[6], 10, 64)
	return stat{state: f[0][0], flags: flags, start: start}, errors.Join(err, bad)
}

// process reads the state of a process; one that is gone is X.
func process(pid int) (stat, error) {
	s, err := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	if gone(err) {
		return stat{state: 'X'}, nil
	}
	return s, err
}

// threads returns the state letter of each thread of a process.
func threads(pid int) (string, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var states []byte
	for _, t := range tasks {
		s, err := readStat(dir + "/" + t.Name() + "/stat")
		if gone(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		states = append(states, s.state)
	}
	return string(states), nil
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }
