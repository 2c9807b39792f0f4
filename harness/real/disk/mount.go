//go:build linux

package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"

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
		return -1, fmt.Errorf("mount a file system on %s: %w; in a container try --cap-add SYS_ADMIN --security-opt apparmor=unconfined", dir, err)
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
