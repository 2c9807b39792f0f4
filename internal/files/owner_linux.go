package files

import (
	"fmt"
	"os"
	"strings"
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
