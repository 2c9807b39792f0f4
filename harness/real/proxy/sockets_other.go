//go:build !linux

package proxy

import (
	"context"
	"errors"
	"net"
	"syscall"
)

func listen(addr string) (net.Listener, error) { return net.Listen("tcp4", addr) }

// occupy needs an address that two sockets can share.
func occupy(string) (release func() error, err error) {
	return nil, errors.New("refusing connections needs Linux")
}

// refuse needs an address that is bound without being listened on.
func refuse(string) (addr string, release func() error, err error) {
	return "", nil, errors.New("refusing connections needs Linux")
}

// setReuseAddr and whileConnected need Linux.
func setReuseAddr(syscall.RawConn) error {
	return errors.New("dialing from reserved ports needs Linux")
}

func whileConnected(ctx context.Context, _ *net.TCPConn) (context.Context, func()) {
	return ctx, func() {}
}
