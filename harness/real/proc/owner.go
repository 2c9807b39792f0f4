//go:build linux

package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Owner identifies a process among all that ever ran on this machine.
type Owner struct {
	Boot  string // first part of the boot id
	Space string // inode of the PID namespace, since two containers may share a directory
	PID   int
	Start uint64 // clock ticks from boot to its start
}

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
	s, err := process(os.Getpid())
	if err != nil {
		return Owner{}, fmt.Errorf("read own start time: %w", err)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(string(boot)), "-")
	return Owner{Boot: id, Space: strings.Trim(space, "pid:[]"), PID: os.Getpid(), Start: s.start}, nil
}

func (o Owner) String() string { return fmt.Sprintf("%s.%s.%d.%d", o.Boot, o.Space, o.PID, o.Start) }

// ParseOwner is the reverse of String.
func ParseOwner(s string) (Owner, bool) {
	f := strings.Split(s, ".")
	if len(f) != 4 {
		return Owner{}, false
	}
	pid, err1 := strconv.Atoi(f[2])
	start, err2 := strconv.ParseUint(f[3], 10, 64)
	return Owner{Boot: f[0], Space: f[1], PID: pid, Start: start}, err1 == nil && err2 == nil
}

// Dead says whether o has certainly ended, as seen from self.
func (o Owner) Dead(self Owner) bool {
	if o.Boot != self.Boot {
		return true
	}
	return o.Space == self.Space && !alive(o.PID, o.Start)
}

// alive says whether the process that had this pid at this start time still
// runs; when in doubt, it does.
func alive(pid int, start uint64) bool {
	s, err := process(pid)
	return err != nil || !s.ended() && s.start == start
}
