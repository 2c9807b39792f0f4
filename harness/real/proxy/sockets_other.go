//go:build !linux

package proxy

import (
	"context"
	"errors"
	"net"
	"syscall"
)

func listen(addr string) (net.Listener, error) { return net.Listen("tcp4", addr) }

// occupy always fails, because it needs an address that two sockets can share.
func occupy(string) (release func() error, err error) {
	return nil, errors.New("refusing connections needs Linux")
}

// refuse always fails, because it needs an address that is bound without a listener.
func refuse(string) (addr string, release func() error, err error) {
	return "", nil, errors.New("refusing connections needs Linux")
}

// setReuseAddr always fails, because it needs Linux.
func setReuseAddr(syscall.RawConn) error {
	return errors.New("dialing from reserved ports needs Linux")
}

// whileConnected returns ctx, because noticing a client's disconnect needs Linux.
func whileConnected(ctx context.Context, _ *net.TCPConn) (context.Context, func()) {
	return ctx, func() {}
}
