package node

import (
	"net"
	"time"

	"lockpick/harness/resp"
)

// valueTimeout is how long to wait for a value from a real server.
const valueTimeout = 5 * time.Second

// tcpConn is a connection to a server in another process or goroutine.
type tcpConn struct {
	conn   net.Conn
	in     resp.Scanner
	values []resp.Value
}

var _ serverConn = (*tcpConn)(nil)

func dialTCP(addr string) (serverConn, error) {
	conn, err := net.DialTimeout("tcp", addr, valueTimeout)
	if err != nil {
		return nil, err
	}
	return &tcpConn{conn: conn}, nil
}

func (t *tcpConn) Send(words []string) error {
	_, err := t.conn.Write(resp.Append(nil, words...))
	return err
}

func (t *tcpConn) Next() (resp.Value, error) {
	buf := make([]byte, 4096)
	for len(t.values) == 0 {
		if err := t.conn.SetReadDeadline(time.Now().Add(valueTimeout)); err != nil {
			return resp.Value{}, err
		}
		n, err := t.conn.Read(buf)
		if err != nil {
			return resp.Value{}, err
		}
		values, err := t.in.Feed(buf[:n])
		if err != nil {
			return resp.Value{}, err
		}
		t.values = append(t.values, values...)
	}
	next := t.values[0]
	t.values = t.values[1:]
	return next, nil
}

func (t *tcpConn) Close() error { return t.conn.Close() }
