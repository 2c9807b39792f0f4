package link

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Refuse returns an address that refuses every connection, and that nobody else
// gets until release: its socket is bound and does not listen.
func Refuse() (addr string, release func() error, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("make a refusing address: %w", err)
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return "", nil, fmt.Errorf("make a refusing address: %w", err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port), func() error { return unix.Close(fd) }, nil
}
