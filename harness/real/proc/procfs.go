//go:build linux

package proc

import (
	"fmt"
	"os"

	"lockpick/harness/owned"
)

// threads returns the state letter of each thread of a process.
func threads(pid int) (string, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var states []byte
	for _, t := range tasks {
		s, err := owned.ReadStat(dir + "/" + t.Name() + "/stat")
		if owned.Gone(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		states = append(states, s.State)
	}
	return string(states), nil
}

// handle is the path of what a file is open on, whatever has the name that it was opened by.
func handle(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
