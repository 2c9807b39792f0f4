//go:build !linux

package link

import (
	"errors"
	"net"
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
