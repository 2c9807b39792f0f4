package link

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// listen listens on an address that another socket may be bound to, see occupy.
func listen(addr string) (net.Listener, error) {
	var l net.ListenConfig
	l.Control = func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = share(int(fd)) }); e != nil {
			return e
		}
		return err
	}
	return l.Listen(context.Background(), "tcp4", addr)
}

func share(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }
