//go:build linux

package fuse

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"lockpick/harness/real/proc"
)

const (
	fsName     = proc.DiskName
	fusermount = "fusermount3"
)

// mount mounts a FUSE file system on dir and returns the descriptor that it is served
// by. The descriptor is closed on exec from its first moment: a redis-server that
// inherits it keeps the file system alive when we are killed, and hangs on it for ever.
// That is why the mount isn't left to go-fuse, which opens the device without.
func mount(dir string) (fd int, err error) {
	if !mayMount() {
		return mountAsUser(dir)
	}
	if fd, err = openDevice(); err != nil {
		return -1, fmt.Errorf("open %s: %w", device, err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", fd, os.Geteuid(), os.Getegid())
	if err := unix.Mount(fsName, dir, "fuse."+fsName, unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount a file system on %s: %w; in a container try --user 0 --cap-add SYS_ADMIN --security-opt apparmor=unconfined", dir, err)
	}
	return fd, nil
}

// mountAsUser lets fusermount3, which is setuid root, mount; it sends the descriptor
// over a socket.
func mountAsUser(dir string) (fd int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make a pair of sockets: %w", err)
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "fusermount")
	defer theirs.Close()
	cmd := exec.Command(fusermount, "-o", "nosuid,nodev,fsname="+fsName+",subtype="+fsName, "--", dir)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
	if out, err := cmd.CombinedOutput(); err != nil {
		return -1, fmt.Errorf("mount a file system on %s: %s: %w: %s", dir, fusermount, err, bytes.TrimSpace(out))
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 4), oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return -1, fmt.Errorf("get the file system's descriptor: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(errors.New("get the file system's descriptor: none came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("get the file system's descriptor: none came"), err)
	}
	return fds[0], nil
}

const device = "/dev/fuse"

// Remedy is for a machine that has all and lets nobody mount.
const Remedy = "in a container: --user 0 --cap-add SYS_ADMIN --security-opt apparmor=unconfined; elsewhere see that fusermount3 is setuid root, or run as root"

// Missing says why there can be no such disk on this machine, and what to do about
// it; both are "" where there can be. It mounts nothing.
func Missing() (reason, remedy string) {
	fd, err := openDevice()
	if err != nil {
		return fmt.Sprintf("can't open %s: %v", device, err), "modprobe fuse; in a container: --user 0 --device /dev/fuse --cap-add SYS_ADMIN"
	}
	unix.Close(fd)
	if mayMount() {
		return "", ""
	}
	if _, err := exec.LookPath(fusermount); err != nil {
		return "only root may mount, and " + fusermount + " is not on PATH", "apt-get install fuse3, or run as root"
	}
	return "", ""
}

func openDevice() (int, error) { return unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0) }

// mayMount says whether this process has the capability CAP_SYS_ADMIN in effect.
func mayMount() bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), "\nCapEff:")
	var effective uint64
	fmt.Sscanf(rest, "%x", &effective)
	return effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
