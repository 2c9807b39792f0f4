package link

import (
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reusable lets a socket have a port whose last connection is over, and only waits.
func reusable(c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }); e != nil {
		return e
	}
	return err
}

// established is the state of a connection that neither end has closed.
const established = 1

// whileThere returns a context that ends when the client closes its connection. Nothing
// is read from it. Nobody else may read until done has returned.
func whileThere(ctx context.Context, client *net.TCPConn) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	raw, err := client.SyscallConn()
	if err != nil {
		cancel() // it is closed
		return ctx, cancel
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		// It is called again whenever something has come in, the end as well.
		raw.Read(func(fd uintptr) bool {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if err == nil && info.State == established {
				return false
			}
			cancel()
			return true
		})
	}()
	return ctx, func() {
		client.SetReadDeadline(time.Unix(1, 0))
		<-watched
		client.SetReadDeadline(time.Time{})
		cancel()
	}
}
