package disk

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

const device = "/dev/fuse"

// Remedy is for a machine that has all and lets nobody mount.
const Remedy = "in a container: --cap-add SYS_ADMIN --security-opt apparmor=unconfined; elsewhere see that fusermount3 is setuid root, or run as root"

// Missing says why there can be no such disk on this machine, and what to do about
// it; both are "" where there can be. It mounts nothing.
func Missing() (reason, remedy string) {
	fd, err := openDevice()
	if err != nil {
		return fmt.Sprintf("can't open %s: %v", device, err), "modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN"
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
