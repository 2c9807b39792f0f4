package link

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// refuse returns an address of this machine whose socket is bound and does not listen.
func refuse(host string) (addr string, release func() error, err error) {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return "", nil, fmt.Errorf("make a refusing address: %w", err)
	}
	return bind(netip.AddrPortFrom(a, 0), false)
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
	return netip.AddrPortFrom(a.Addr(), uint16(name.(*unix.SockaddrInet4).Port)).String(), func() error { return unix.Close(fd) }, nil
}
