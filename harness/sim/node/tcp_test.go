package node

import (
	"net"
	"time"

	"lockpick/harness/resp"
)

// valueTimeout is how long to wait for a value from a real server.
const patience = 5 * time.Second

// tcpConn is a connection to a server in another process or goroutine.
type tcpLine struct {
	conn   net.Conn
	in     resp.Scanner
	values []resp.Value
}

var _ line = (*tcpLine)(nil)

func dialTCP(addr string) (line, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &tcpLine{conn: conn}, nil
}

func (t *tcpLine) Send(words []string) error {
	_, err := t.conn.Write(resp.Append(nil, words...))
	return err
}

func (t *tcpLine) Next() (resp.Value, error) {
	buf := make([]byte, 4096)
	for len(t.values) == 0 {
		if err := t.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
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

func (t *tcpLine) Close() error { return t.conn.Close() }
