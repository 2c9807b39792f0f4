//go:build !linux

package proxy

import (
	"context"
	"errors"
	"net"
	"syscall"
)

func listen(addr string) (net.Listener, error) { return net.Listen("tcp4", addr) }

// occupy needs an address that two sockets may share.
func occupy(string) (release func() error, err error) {
	return nil, errors.New("to refuse connections needs Linux")
}

// refuse likewise needs an address that is bound and does not listen.
func refuse(string) (addr string, release func() error, err error) {
	return "", nil, errors.New("to refuse connections needs Linux")
}

// reusable and whileThere likewise need Linux.
func reusable(syscall.RawConn) error { return errors.New("to dial from ports of its own needs Linux") }

func whileThere(ctx context.Context, _ *net.TCPConn) (context.Context, func()) { return ctx, func() {} }
