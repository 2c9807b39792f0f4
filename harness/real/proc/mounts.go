//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness/owned"
)

// DiskName is what the disks of runs are called where mounts are listed.
const DiskName = "lockpick"

// Unmount unmounts a FUSE file system of this run's.
func Unmount(dir string) error {
	above, err := os.OpenFile(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	defer above.Close()
	if err := unmountIn(above, filepath.Base(dir)); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// unmountIn unmounts a FUSE file system that is mounted on a name in a directory, which is no
// link. MNT_FORCE ends its connection: another mount namespace that was made meanwhile has it
// mounted as well, and would keep it for as long as that lasts. Who has just ended may keep
// it busy for a moment; after that it is detached.
func unmountIn(above *os.File, name string) error {
	path := handle(above) + "/" + name
	var err error
	for range 20 {
		if err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_FORCE); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if errors.Is(err, unix.EPERM) { // an ordinary user's
		cmd := exec.Command("fusermount3", "-u", "-z", "--", name)
		cmd.Dir = handle(above)
		out, failed := cmd.CombinedOutput()
		if failed == nil {
			return nil
		}
		err = fmt.Errorf("%w; %w: %s", err, failed, strings.TrimSpace(string(out)))
	}
	return err
}

type mount struct {
	id                     int
	point                  string
	kind, source, settings string
}

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
		if !strings.HasPrefix(m.point, dir+"/") {
			continue
		}
		if !m.ours() {
			return nil, fmt.Errorf("%w: %s is mounted on %s", owned.ErrLeave, m.source, m.point)
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
		id, err := strconv.Atoi(f[0])
		if err != nil {
			continue
		}
		out = append(out, mount{id: id, point: plain.Replace(f[4]), kind: g[0], source: plain.Replace(g[1]), settings: g[2]})
	}
	return out
}

// unmount unmounts it, if it is what is mounted on its place below dir, whose path is given.
func (m mount) unmount(dir *os.File, path string) error {
	above, name := filepath.Split(strings.TrimPrefix(m.point, path+"/"))
	at, err := openBelow(dir, filepath.Join(".", above))
	if err != nil {
		return fmt.Errorf("unmount %s: %w", m.point, err)
	}
	defer at.Close()
	is, err := openBelow(at, name)
	if err != nil {
		return fmt.Errorf("unmount %s: %w", m.point, err)
	}
	id, err := mountID(is)
	is.Close() // or it would be busy
	switch {
	case err != nil:
		return fmt.Errorf("unmount %s: %w", m.point, err)
	case id != m.id:
		return nil // another lockpick was faster
	}
	err = unmountIn(at, name)
	if errors.Is(err, unix.EINVAL) {
		return nil // likewise
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", m.point, err)
	}
	return nil
}

// openBelow opens a directory below another without following a link, and asks nothing of
// what is mounted there.
func openBelow(dir *os.File, path string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(int(dir.Fd()), path, &how)
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.6, or in a sandbox
		return nil, fmt.Errorf("%w: %w", owned.ErrLeave, err)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// mountID is which mount a file is on, as mountinfo counts them.
func mountID(f *os.File) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "mnt_id:")
	var id int
	_, err = fmt.Sscan(rest, &id)
	return id, err
}
