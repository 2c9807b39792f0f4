//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness/real/disk"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/server"
	"lockpick/harness/resp"
)

// redisPort is where every server listens in its container.
const redisPort = "6379"

const (
	readyBound    = 10 * time.Second       // how long a server may take to answer
	helloBound    = 200 * time.Millisecond // and one try
	shutdownBound = 5 * time.Second        // and to end when it is asked to
)

// node is a redis-server in a container. It keeps its address and its data when it
// is killed and started again.
type node struct {
	*box
	site *site
	addr string
	want wanted
	disk *disk.Disk // that can be hit; nil: it has none

	changing   sync.Mutex // held while it is started or ended
	generation string     // its run_id
	telling    sync.Mutex // held while the links are told how it is

	unplugged, starved atomic.Bool // now
	spoiled            atomic.Bool // it is not as it was when it was new
}

// ask sends it a command from the links' container, past all links.
func (n *node) ask(ctx context.Context, args ...string) (resp.Value, error) {
	remote, err := n.site.network(ctx)
	if err != nil {
		return resp.Value{}, err
	}
	return remote.Ask(ctx, n.addr, args...)
}

// command is ask whose error replies are errors.
func (n *node) command(ctx context.Context, name string, args []string) (any, error) {
	v, err := n.ask(ctx, args...)
	return proc.Answer(name, args, v, err)
}

// tell tells the links how it is: they close the clients of one that is down at once,
// since a connect to an address where nobody is takes seconds to fail.
func (n *node) tell(ctx context.Context) {
	n.telling.Lock()
	defer n.telling.Unlock()
	if remote, err := n.site.network(ctx); err == nil {
		remote.Tell(ctx, n.name, n.Runs(), !n.deaf()) // links that have ended need not know
	}
}

// deaf says whether it may be there and answer nobody, whatever its links do.
func (n *node) deaf() bool {
	return n.Paused() || n.unplugged.Load() || n.starved.Load() || n.disk != nil && n.disk.Stalled()
}

// begin starts it and returns once it answers.
func (n *node) begin(ctx context.Context) error {
	if err := n.start(ctx); err != nil {
		return err
	}
	if err := n.want.turner.open(ctx, n.box); err != nil {
		return err
	}
	ended := n.done()
	limit, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	for {
		id, err := n.hello(limit)
		if err == nil {
			n.generation = id
			n.tell(ctx)
			go func() {
				<-ended
				n.tell(context.WithoutCancel(ctx))
			}()
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("start %s: %w:\n%s", n.name, server.ErrWontStart, n.engine.logs(ctx, n.id))
		case <-limit.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("start %s: %w", n.name, context.Cause(ctx))
			}
			return fmt.Errorf("start %s: %s does not answer within %v: %w\n%s", n.name, n.addr, readyBound, err, n.engine.logs(ctx, n.id))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// hello asks once whether it is ready, and for its run_id.
func (n *node) hello(ctx context.Context) (generation string, err error) {
	ctx, cancel := context.WithTimeout(ctx, helloBound)
	defer cancel()
	v, err := n.ask(ctx, "PING")
	if err != nil || v.Str != "PONG" {
		return "", errors.Join(errors.New("not ready"), err)
	}
	v, err = n.ask(ctx, "INFO", "server")
	_, rest, _ := strings.Cut(v.Str, "\nrun_id:")
	generation, _, _ = strings.Cut(rest, "\r\n")
	return generation, err
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
	keys, err := n.ask(ctx, "DBSIZE")
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", n.name, err)
	}
	return fmt.Sprintf("container %.12s, run_id %.8s was %.8s, %d keys", n.id, n.generation, before, keys.Int), nil
}

// shutdown asks it to end in good order, and waits until it has.
func (n *node) shutdown(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	switch {
	case !n.Runs():
		return "", fmt.Errorf("shut %s down: it does not run", n.name)
	case n.Paused() || n.unplugged.Load():
		return "", fmt.Errorf("shut %s down: it is paused or unplugged, and hears nothing", n.name)
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownBound)
	defer cancel()
	// One that ends as asked closes the connection without an answer.
	if v, err := n.ask(ctx, "SHUTDOWN"); err == nil {
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
	n.tell(ctx)
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
	n.tell(ctx)
	return back, err
}

// wanted is what a node's container is to be.
type wanted struct {
	persist string
	data    string  // directory of the engine's machine where it keeps its data; "": in the container
	turner  *turner // of its clocks in this run; nil: nobody turns them
}

// makeNode gives the container of a node, or of the resource, and starts it: that
// which is there, wiped, if it will do.
func (s *site) makeNode(ctx context.Context, name string, host int, want wanted) (*node, error) {
	s.mu.Lock()
	n := s.nodes[name]
	s.mu.Unlock()
	if n != nil && n.want == want && n.Runs() && !n.deaf() && !n.spoiled.Load() && n.wipe(ctx) == nil {
		return n, nil
	}
	if n != nil { // or the last run ended while it was being started again
		if err := s.removeNode(ctx, n); err != nil {
			return nil, err
		}
	}
	settings, err := proc.ServerArgs(want.persist)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	command := append([]string{s.stock.program, "--bind", "0.0.0.0", "--protected-mode", "no", "--port", redisPort, "--dir", dataDir}, settings...)
	makeBox := s.makeBox
	if want.turner != nil {
		makeBox = s.makeTurnable
	}
	b, err := makeBox(ctx, name, host, making{image: s.stock.ref, command: command, data: want.data})
	if err != nil {
		return nil, err
	}
	n = &node{box: b, site: s, want: want, addr: net.JoinHostPort(s.net.at(host).String(), redisPort)}
	s.mu.Lock()
	s.nodes[name] = n
	s.mu.Unlock()
	return n, n.begin(ctx)
}

// removeNode removes a node that is of no more use.
func (s *site) removeNode(ctx context.Context, n *node) error {
	s.mu.Lock()
	delete(s.nodes, n.name)
	s.mu.Unlock()
	return n.remove(ctx)
}

// wipe makes it as it was when it was new, and looks whether it is: a master without
// keys and scripts, and the process that we know.
func (n *node) wipe(ctx context.Context) error {
	for _, command := range [][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"CONFIG", "RESETSTAT"}} {
		if _, err := n.command(ctx, n.name, command); err != nil {
			return fmt.Errorf("wipe: %w", err)
		}
	}
	info, err := n.ask(ctx, "INFO")
	if err != nil {
		return fmt.Errorf("wipe %s: %w", n.name, err)
	}
	for _, is := range []string{"role:master", "number_of_cached_scripts:0", "run_id:" + n.generation} {
		if !strings.Contains(info.Str, "\n"+is+"\r\n") {
			return fmt.Errorf("wipe %s: it is not so that %s", n.name, is)
		}
	}
	if v, err := n.ask(ctx, "DBSIZE"); err != nil || v.Int != 0 {
		return errors.Join(fmt.Errorf("wipe %s: it still has %d keys", n.name, v.Int), err)
	}
	return nil
}
