package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Quit has a Go program print the stacks of its goroutines, and end. Of one that runs Go prints
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
