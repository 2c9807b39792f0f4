//go:build !linux

package proxy

import (
	"context"
	"errors"
	"net"
	"syscall"
)

func listen(addr string) (net.Listener, error) { return net.Listen("tcp4", addr) }

// occupy always fails here, because it requires an address that two sockets can share.
func occupy(string) (release func() error, err error) {
	return nil, errors.New("refusing connections needs Linux")
}

// refuse always fails here, because it requires an address that is bound but not listened on.
func refuse(string) (addr string, release func() error, err error) {
	return "", nil, errors.New("refusing connections needs Linux")
}

// setReuseAddr and whileConnected require Linux.
func setReuseAddr(syscall.RawConn) error {
	return errors.New("dialing from reserved ports needs Linux")
}

func whileConnected(ctx context.Context, _ *net.TCPConn) (context.Context, func()) {
	return ctx, func() {}
}
