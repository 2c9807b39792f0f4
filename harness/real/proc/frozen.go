package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Frozen says whether the kernel keeps a process of this machine frozen with its control
// group, as a paused container's are, and whether that can be known: of the first version
// of control groups by freezer.state, of the second by cgroup.events (Documentation of
// Linux, admin-guide/cgroup-v1/freezer-subsystem and admin-guide/cgroup-v2).
func Frozen(pid int) (frozen, known bool) {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false, false
	}
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch controllers {
		case "freezer":
			state, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", path, "freezer.state"))
			if err == nil {
				return strings.TrimSpace(string(state)) != "THAWED", true
			}
		case "":
			events, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", path, "cgroup.events"))
			if err == nil && strings.Contains(string(events), "frozen") {
				return strings.Contains(string(events), "frozen 1"), true
			}
		}
	}
	return false, false
}
