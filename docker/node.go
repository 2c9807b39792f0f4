//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"lockpick/harness/real/proc"
)

// redisPort is where every server listens in its container.
const redisPort = "6379"

const (
	readyBound    = 10 * time.Second // how long a server may take to answer
	shutdownBound = 5 * time.Second  // and to end when it is asked to
)

// node is a redis-server in a container. It keeps its address and its data when it
// is killed and started again.
type node struct {
	*box
	addr string

	changing   sync.Mutex // held while it is started or ended
	generation string     // its run_id
}

// begin starts it and returns once it answers.
func (n *node) begin(ctx context.Context) error {
	if err := n.start(ctx); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	for {
		id, err := proc.Hello(limit, n.addr)
		if err == nil {
			n.generation = id.Run
			return nil
		}
		select {
		case <-n.done():
			return fmt.Errorf("start %s: redis-server has ended:\n%s", n.name, n.engine.logs(ctx, n.id))
		case <-limit.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("start %s: %w", n.name, context.Cause(ctx))
			}
			return fmt.Errorf("start %s: %s does not answer within %v: %w\n%s", n.name, n.addr, readyBound, err, n.engine.logs(ctx, n.id))
		case <-time.After(time.Millisecond):
		}
	}
}

// restart starts it again when it has ended, with what its disk kept, and says which
// process answers now and how many keys it has.
func (n *node) restart(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.Runs() {
		return "", fmt.Errorf("restart %s: it runs", n.name)
	}
	before := n.generation
	if err := n.begin(ctx); err != nil {
		return "", err
	}
	if n.generation == before {
		return "", fmt.Errorf("restart %s: run_id is still %s", n.name, before)
	}
	keys, err := proc.Ask(ctx, n.addr, "DBSIZE")
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", n.name, err)
	}
	return fmt.Sprintf("container %.12s, run_id %s was %s, %d keys", n.id, n.generation[:8], before[:8], keys.Int), nil
}

// shutdown asks it to end in good order, and waits until it has.
func (n *node) shutdown(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	switch {
	case !n.Runs():
		return "", fmt.Errorf("shut %s down: it does not run", n.name)
	case n.Paused():
		return "", fmt.Errorf("shut %s down: it is paused, and hears nothing", n.name)
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownBound)
	defer cancel()
	// One that ends as asked closes the connection without an answer.
	if v, err := proc.Ask(ctx, n.addr, "SHUTDOWN"); err == nil {
		return "", fmt.Errorf("shut %s down: it says %q", n.name, v.Str)
	}
	select {
	case <-n.done():
	case <-ctx.Done():
		return "", fmt.Errorf("shut %s down: it is still there: %w", n.name, context.Cause(ctx))
	}
	if err := n.outcome(); err != nil {
		return "", fmt.Errorf("shut %s down: it ended with %w:\n%s", n.name, err, n.engine.logs(context.WithoutCancel(ctx), n.id))
	}
	return fmt.Sprintf("container %.12s ended in good order", n.id), nil
}

// kill ends it without warning.
func (n *node) kill(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	back, err := n.Kill(ctx)
	if errors.Is(err, proc.ErrEnded) {
		return "", fmt.Errorf("kill %s: it does not run", n.name)
	}
	return back, err
}

// makeNode makes the container of a node or of the resource, and starts it.
func (c *cluster) makeNode(name string, host int, persist string) (*node, error) {
	settings, err := proc.ServerArgs(persist)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	command := append([]string{c.server, "--bind", "0.0.0.0", "--protected-mode", "no", "--port", redisPort, "--dir", dataDir}, settings...)
	b, err := c.makeBox(name, making{image: c.images.redis, addr: c.net.at(host), command: command})
	if err != nil {
		return nil, err
	}
	n := &node{box: b, addr: net.JoinHostPort(c.net.at(host).String(), redisPort)}
	return n, n.begin(c.ctx)
}
