package owned

import (
	"fmt"
	"strconv"
	"strings"
)

// Owner identifies a process among all that ever ran.
type Owner struct {
	Boot  string // first part of the boot id, which tells machines apart, too
	Space string // inode of the PID namespace, since two containers may share a directory
	PID   int
	Start uint64 // clock ticks from boot to its start
}

func (o Owner) String() string { return fmt.Sprintf("%s.%s.%d.%d", o.Boot, o.Space, o.PID, o.Start) }

// Parse is the reverse of String.
func Parse(s string) (Owner, bool) {
	f := strings.Split(s, ".")
	if len(f) != 4 {
		return Owner{}, false
	}
	pid, err1 := strconv.Atoi(f[2])
	start, err2 := strconv.ParseUint(f[3], 10, 64)
	return Owner{Boot: f[0], Space: f[1], PID: pid, Start: start}, err1 == nil && err2 == nil && pid > 0
}
