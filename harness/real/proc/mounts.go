//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/internal/files"
)

// DiskName is what the disks of runs are called where mounts are listed.
const DiskName = "lockpick"

// Unmount unmounts a FUSE file system of lockpick's. MNT_FORCE ends its connection: another
// mount namespace that was made meanwhile has it mounted as well, and would keep it for as long
// as that lasts. Who has just ended may keep it busy for a moment; after that it is detached.
func Unmount(dir string) error {
	var err error
	for range 20 {
		if err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_FORCE); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if errors.Is(err, unix.EPERM) { // an ordinary user's
		out, failed := exec.Command("fusermount3", "-u", "-z", "--", dir).CombinedOutput()
		if failed == nil {
			return nil
		}
		err = fmt.Errorf("%w; %w: %s", err, failed, strings.TrimSpace(string(out)))
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

type mount struct{ point, kind, source, settings string }

// ours says whether it is a disk that this user has mounted.
func (m mount) ours() bool {
	return m.kind == "fuse."+DiskName && m.source == DiskName &&
		slices.Contains(strings.Split(m.settings, ","), fmt.Sprintf("user_id=%d", os.Geteuid()))
}

// disksBelow lists the disks that are mounted below a directory, the last that was mounted
// first. Where something else is mounted, nothing of the directory is to be touched.
func disksBelow(dir string) ([]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find mounts: %w", err)
	}
	var out []mount
	for _, m := range mounts(string(b)) {
		if m.point != dir && !strings.HasPrefix(m.point, dir+"/") {
			continue
		}
		if !m.ours() {
			return nil, fmt.Errorf("%w: %s is mounted on %s", files.ErrLeave, m.source, m.point)
		}
		out = append([]mount{m}, out...)
	}
	return out, nil
}

func mounts(mountinfo string) []mount {
	// A blank, a tab, a newline and a backslash are written as octal numbers.
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []mount
	for line := range strings.Lines(mountinfo) {
		where, what, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(where), strings.Fields(what)
		if len(f) < 5 || len(g) < 3 {
			continue
		}
		out = append(out, mount{point: plain.Replace(f[4]), kind: g[0], source: plain.Replace(g[1]), settings: g[2]})
	}
	return out
}
