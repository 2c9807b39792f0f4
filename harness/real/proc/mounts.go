//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Unmount unmounts a FUSE file system. Who has just ended may keep it busy for a
// moment; after that it is taken out of sight, and ends with its last user.
func Unmount(dir string) error {
	var err error
	for range 20 {
		if err = unix.Unmount(dir, 0); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(dir, unix.MNT_DETACH)
	}
	if errors.Is(err, unix.EPERM) { // an ordinary user's
		if out, failed := exec.Command("fusermount3", "-u", "-z", "--", dir).CombinedOutput(); failed == nil {
			err = nil
		} else {
			err = fmt.Errorf("%w; %w: %s", err, failed, strings.TrimSpace(string(out)))
		}
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// unmountBelow unmounts what is mounted below a directory.
func unmountBelow(dir string) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return fmt.Errorf("find mounts: %w", err)
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("find mounts: %w", err)
	}
	var errs []error
	for _, path := range mountPoints(string(b)) {
		if strings.HasPrefix(path, dir+"/") {
			errs = append(errs, Unmount(path))
		}
	}
	return errors.Join(errs...)
}

// mountPoints lists the mount points of mountinfo, the last that was mounted first.
func mountPoints(mountinfo string) []string {
	var out []string
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		// A blank, a tab, a newline and a backslash are written as octal numbers.
		path := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(f[4])
		out = append([]string{path}, out...)
	}
	return out
}
