package keylife

import (
	"fmt"
	"net"
	"time"

	"lockpick/harness/resp"
)

const (
	dialBound   = 2 * time.Second // how long a server may take to be connected to
	answerBound = 5 * time.Second // and to answer
)

type conn struct {
	net.Conn
	scan   resp.Scanner
	values []resp.Value // that came and were not taken
	buf    [1 << 16]byte
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, dialBound)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

func (c *conn) send(commands ...[]string) error {
	var b []byte
	for _, args := range commands {
		b = resp.Append(b, args...)
	}
	_, err := c.Write(b)
	return err
}

// read waits for bytes and returns what is complete then.
func (c *conn) read() ([]resp.Value, error) {
	n, err := c.Read(c.buf[:])
	values, bad := c.scan.Feed(c.buf[:n])
	if bad != nil {
		err = bad
	}
	return values, err
}

func (c *conn) next() (resp.Value, error) {
	for len(c.values) == 0 {
		values, err := c.read()
		c.values = append(c.values, values...)
		if err != nil && len(c.values) == 0 {
			return resp.Value{}, err
		}
	}
	v := c.values[0]
	c.values = c.values[1:]
	return v, nil
}

// ask sends commands and returns the replies. An error reply is a reply.
func (c *conn) ask(commands ...[]string) ([]resp.Value, error) {
	c.SetDeadline(time.Now().Add(answerBound))
	defer c.SetDeadline(time.Time{})
	if err := c.send(commands...); err != nil {
		return nil, err
	}
	replies := make([]resp.Value, len(commands))
	for i := range replies {
		v, err := c.next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", commands[i][0], err)
		}
		replies[i] = v
	}
	return replies, nil
}

// tell is ask for one command whose error reply is an error.
func (c *conn) tell(args ...string) (resp.Value, error) {
	replies, err := c.ask(args)
	if err != nil {
		return resp.Value{}, err
	}
	if text, bad := replies[0].Error(); bad {
		return resp.Value{}, fmt.Errorf("%s: %s", args[0], text)
	}
	return replies[0], nil
}
