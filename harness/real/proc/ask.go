package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"lockpick/harness/resp"
)

// askBound is how long a server may take to answer when the context sets no bound.
const askBound = 5 * time.Second

// Ask sends one command to a Redis server on a connection of its own and
// returns its reply. An error reply is a reply.
func Ask(ctx context.Context, addr string, args ...string) (resp.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	v, err := ask(ctx, addr, args)
	if err != nil {
		return resp.Value{}, fmt.Errorf("ask %s: %s: %w", addr, args[0], err)
	}
	return v, nil
}

func ask(ctx context.Context, addr string, args []string) (resp.Value, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return resp.Value{}, err
	}
	defer conn.Close()
	asked.note(asking{conn.RemoteAddr().String(), conn.LocalAddr().String()})
	end := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer end()
	if _, err := conn.Write(resp.Append(nil, args...)); err != nil {
		return resp.Value{}, err
	}
	var scan resp.Scanner
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		values, bad := scan.Feed(buf[:n])
		if len(values) > 0 {
			return values[0], nil
		}
		if err := errors.Join(bad, err); err != nil {
			return resp.Value{}, err
		}
	}
}
