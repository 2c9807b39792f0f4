package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
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

// asked is where this process has asked servers from. A server that tells who asked it
// knows a connection by its address alone, and may tell when that is long closed.
var asked askers

type askers struct {
	mu  sync.Mutex
	all map[asking]time.Duration // by TrueClock, when it was last asked
}

// asking is a server and where it was asked from: another server may be connected to from
// the same port by anybody.
type asking struct{ server, from string }

// askedFor is how long an address that was asked from counts as ours. The kernel gives it
// away again.
const askedFor = time.Minute

func (a *askers) note(x asking) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[asking]time.Duration{}
	}
	a.all[x] = TrueClock()
}

// Asked says whether Ask has asked a server lately from an address. Both are as their
// connection has them.
func Asked(server, from string) bool {
	asked.mu.Lock()
	defer asked.mu.Unlock()
	at, ok := asked.all[asking{server, from}]
	return ok && TrueClock()-at < askedFor
}

// Answer is what a server that has a name for messages has answered to a command, as Go
// has it: nil, int64, string or a []any of them. An error reply is an error.
func Answer(name string, args []string, v resp.Value, err error) (any, error) {
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", name, err)
	}
	r := reply(v)
	if err, ok := r.(error); ok {
		return nil, fmt.Errorf("ask %s: %s: %w", name, args[0], err)
	}
	return r, nil
}

// reply is a RESP value as Go has it: nil, int64, string, error or a []any of them.
func reply(v resp.Value) any {
	switch {
	case v.Null:
		return nil
	case v.Kind == '-':
		return errors.New(v.Str)
	case v.Kind == ':':
		return v.Int
	case v.Kind == '*' || v.Kind == '~' || v.Kind == '%':
		items := make([]any, len(v.Items))
		for i, it := range v.Items {
			items[i] = reply(it)
		}
		return items
	}
	return v.Str
}
