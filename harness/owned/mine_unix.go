//go:build unix && !linux

package owned

import (
	"io/fs"
	"os"
	"syscall"
)

// mine says whether something is this user's alone.
func mine(is fs.FileInfo) bool {
	s, ok := is.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid() && (!is.IsDir() || is.Mode().Perm() == private)
}
