package link

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Refuse returns an address that refuses every connection, and that nobody else
// gets until release: its socket is bound and does not listen.
func Refuse() (addr string, release func() error, err error) {
	return bind(netip.MustParseAddrPort("127.0.0.1:0"), false)
}

// occupy keeps an address that listen listens on from being given to others, once
// its listener is closed, so that it refuses.
func occupy(addr string) (release func() error, err error) {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("occupy %s: %w", addr, err)
	}
	_, release, err = bind(a, true)
	return release, err
}

func bind(a netip.AddrPort, shared bool) (addr string, release func() error, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("make a refusing address: %w", err)
	}
	if shared {
		err = share(fd)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())})
	}
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
