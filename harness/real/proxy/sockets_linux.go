package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// listen listens on an address, even if occupy has bound a socket to it.
func listen(addr string) (net.Listener, error) {
	var l net.ListenConfig
	l.Control = func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = setReusePort(int(fd)) }); e != nil {
			return e
		}
		return err
	}
	return l.Listen(context.Background(), "tcp4", addr)
}

func setReusePort(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }

// setReuseAddr lets a socket bind to a port whose last connection is in the TIME_WAIT state.
func setReuseAddr(c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }); e != nil {
		return e
	}
	return err
}

// stateEstablished is the TCP state of a connection that neither end has closed.
const stateEstablished = 1

// whileConnected returns a context that is canceled when the client closes its connection. It reads
// no data. Nothing else may read from the connection until done has returned.
func whileConnected(ctx context.Context, client *net.TCPConn) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	rawConn, err := client.SyscallConn()
	if err != nil {
		cancel() // the connection is closed
		return ctx, cancel
	}
	watchDone := make(chan struct{})
	go func() {
		defer close(watchDone)
		// Read calls the function whenever data or the end of the stream arrives.
		rawConn.Read(func(fd uintptr) bool {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if err == nil && info.State == stateEstablished {
				return false
			}
			cancel()
			return true
		})
	}()
	return ctx, func() {
		client.SetReadDeadline(time.Unix(1, 0))
		<-watchDone
		client.SetReadDeadline(time.Time{})
		cancel()
	}
}

// refuse returns a local address with a socket that is bound but does not listen.
func refuse(host string) (addr string, release func() error, err error) {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return "", nil, fmt.Errorf("reserve an address that refuses connections: %w", err)
	}
	return bind(netip.AddrPortFrom(a, 0), false)
}

// occupy reserves the address of a listener created by listen. The address refuses connections once
// the listener is closed.
func occupy(addr string) (release func() error, err error) {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("occupy %s: %w", addr, err)
	}
	_, release, err = bind(a, true)
	return release, err
}

func bind(a netip.AddrPort, reusePort bool) (addr string, release func() error, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("reserve an address that refuses connections: %w", err)
	}
	if reusePort {
		err = setReusePort(fd)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())})
	}
	var sockname unix.Sockaddr
	if err == nil {
		sockname, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return "", nil, fmt.Errorf("reserve an address that refuses connections: %w", err)
	}
	return netip.AddrPortFrom(a.Addr(), uint16(sockname.(*unix.SockaddrInet4).Port)).String(), func() error { return unix.Close(fd) }, nil
}
