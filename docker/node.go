//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
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

const readyBound = 10 * time.Second // how long the links may take to answer

// node is a redis-server in a container. It keeps its address and its data when it
// is killed and started again.
type node struct {
	server.Server
	*box
	site  *site
	place *place
	want  wanted
	disk  *disk.Disk // that can be hit; nil: it has none

	changing sync.Mutex // held while it is started or ended
	is       server.Identity

	telling sync.Mutex // held while the links are told how it is
	removed bool

	unplugged, starved atomic.Bool // now
	everStarved        atomic.Bool // it was starved, if not now
	spoiled            atomic.Bool // it is not as it was when it was new
}

// role is what the site keeps a node for: it has one for each way of persistence, and one
// more for a run that does to its nodes what wipe does not undo.
type role struct {
	name, persist string
	once          bool
}

func (n *node) role() role { return role{n.Name, n.want.persist, n.want.once} }

// newNode is a redis-server in a container that has not started.
func (s *site) newNode(b *box, at *place, want wanted) *node {
	n := &node{box: b, site: s, place: at, want: want}
	n.Server = server.Server{
		Name: b.name, At: net.JoinHostPort(s.net.at(at.host).String(), redisPort), Ask: s.ask,
		Log: func() string { return s.engine.logs(context.Background(), b.id) },
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[n.role()] = n
	return n
}

// ask sends a server a command from the links' container, past all links.
func (s *site) ask(ctx context.Context, addr string, args ...string) (resp.Value, error) {
	remote, err := s.network(ctx)
	if err != nil {
		return resp.Value{}, err
	}
	if _, bounded := ctx.Deadline(); !bounded { // or links that stand still would keep us for ever
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, engineBound)
		defer cancel()
	}
	return remote.Ask(ctx, addr, args...)
}

// command is Ask whose error replies are errors.
func (n *node) command(ctx context.Context, name string, args []string) (any, error) {
	v, err := n.Ask(ctx, n.At, args...)
	return proc.Answer(name, args, v, err)
}

// tell tells the links how it is: they close the clients of one that is down at once,
// since a connect to an address where nobody is takes seconds to fail.
func (n *node) tell(ctx context.Context) {
	remote, err := n.site.network(ctx)
	if err != nil {
		return
	}
	n.telling.Lock()
	defer n.telling.Unlock()
	if !n.removed { // or another may have its address
		remote.Tell(ctx, n.At, n.Runs(), !n.deaf()) // links that have ended need not know
	}
}

// deaf says whether it may be there and answer nobody, whatever its links do.
func (n *node) deaf() bool {
	return n.Paused() || n.unplugged.Load() || n.starved.Load() || n.disk != nil && n.disk.Stalled()
}

// begin starts it and returns once it answers.
func (n *node) begin(ctx context.Context) (err error) {
	if err := n.start(ctx); err != nil {
		return err
	}
	if err := n.want.turner.open(ctx, n.box); err != nil {
		return err
	}
	ended := n.done()
	if n.is, err = n.Ready(ctx, ended); err != nil {
		return fmt.Errorf("start %s at %s: %w", n.Name, n.At, err)
	}
	n.tell(ctx)
	go func() {
		<-ended
		n.tell(context.WithoutCancel(ctx))
	}()
	return nil
}

// restart starts it again when it has ended, with what its disk kept, and says which
// process answers now and how many keys it has.
func (n *node) restart(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.Runs() {
		return "", fmt.Errorf("restart %s: it runs", n.Name)
	}
	before := n.is
	if err := n.begin(ctx); err != nil {
		return "", err
	}
	keys, err := n.Again(ctx, before, n.is)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("container %.12s, %s", n.id, keys), nil
}

// shutdown asks it to end in good order, and waits until it has.
func (n *node) shutdown(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	switch {
	case !n.Runs():
		return "", fmt.Errorf("shut %s down: it does not run", n.Name)
	case n.Paused() || n.unplugged.Load():
		return "", fmt.Errorf("shut %s down: it is paused or unplugged, and hears nothing", n.Name)
	}
	n.mayEnd(true)
	if err := n.End(ctx, n.done()); err != nil {
		n.mayEnd(false)
		return "", err
	}
	if err := n.outcome(); err != nil {
		return "", fmt.Errorf("shut %s down: it ended with %w:\n%s", n.Name, err, n.Log())
	}
	n.tell(ctx)
	return fmt.Sprintf("container %.12s ended in good order", n.id), nil
}

// kill ends it without warning.
func (n *node) kill(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	return n.end(ctx)
}

// end is kill for who holds changing.
func (n *node) end(ctx context.Context) (readBack string, err error) {
	back, err := n.Kill(ctx)
	if errors.Is(err, proc.ErrEnded) {
		return "", fmt.Errorf("kill %s: it does not run", n.Name)
	}
	n.tell(ctx)
	return back, err
}

// wanted is what a node's container is to be.
type wanted struct {
	persist string
	once    bool    // it is of no use to another run
	data    string  // directory of the engine's machine where it keeps its data; "": in the container
	turner  *turner // of its clocks in this run; nil: nobody turns them
}

// makeNode gives the container of a node, or of the resource, and starts it: that
// which is there, wiped, if it will do.
func (s *site) makeNode(ctx context.Context, name string, host int, want wanted) (*node, error) {
	if n, err := s.lentNode(ctx, name); n != nil {
		return n, err
	}
	s.mu.Lock()
	n := s.nodes[role{name, want.persist, want.once}]
	s.mu.Unlock()
	if n != nil && !want.once && n.Runs() && !n.deaf() && !n.spoiled.Load() && n.wipe(ctx) == nil {
		return n, nil
	}
	if n != nil { // or the last run ended while it was being started again
		if err := s.removeNode(ctx, n); err != nil {
			return nil, err
		}
	}
	settings, err := server.Args(want.persist)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	makeBox := s.makeBox
	if want.turner != nil {
		makeBox = s.makeTurnable
	}
	at, err := s.settle(ctx, host)
	if err != nil {
		return nil, err
	}
	m := making{image: s.stock.ref, command: s.command(settings), data: want.data, name: fmt.Sprintf("%s-%d", name, at.host), beside: at.id}
	b, err := makeBox(ctx, name, at.host, m)
	if err != nil {
		return nil, err
	}
	n = s.newNode(b, at, want)
	return n, n.begin(ctx)
}

// command starts a redis-server, with settings of its own.
func (s *site) command(settings []string) []string {
	listen := []string{"--bind", "0.0.0.0", "--protected-mode", "no", "--port", redisPort, "--dir", dataDir}
	return slices.Concat([]string{s.stock.program}, settings, listen)
}

// removeNode removes a node that is of no more use.
func (s *site) removeNode(ctx context.Context, n *node) error {
	s.mu.Lock()
	delete(s.nodes, n.role())
	s.mu.Unlock()
	n.telling.Lock()
	n.removed = true
	n.telling.Unlock()
	if err := n.remove(ctx); err != nil {
		return err
	}
	return s.leave(ctx, n)
}

// removeNodes removes all those that are to go, for the next run to make its own.
func (s *site) removeNodes(ctx context.Context, goes func(*node) bool) error {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.nodes))
	s.mu.Unlock()
	errs := make([]error, len(all))
	var removing sync.WaitGroup
	for i, n := range all {
		if goes(n) {
			removing.Go(func() { errs[i] = s.removeNode(ctx, n) })
		}
	}
	removing.Wait()
	return errors.Join(errs...)
}

// wipe makes it as it was when it was new, and looks whether it is: a master without
// keys and scripts, and the process that we know.
func (n *node) wipe(ctx context.Context) error {
	for _, command := range [][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"CONFIG", "RESETSTAT"}} {
		if _, err := n.command(ctx, n.Name, command); err != nil {
			return fmt.Errorf("wipe: %w", err)
		}
	}
	info, err := n.Ask(ctx, n.At, "INFO")
	if err != nil {
		return fmt.Errorf("wipe %s: %w", n.Name, err)
	}
	for _, is := range []string{"role:master", "number_of_cached_scripts:0", "run_id:" + n.is.Run} {
		if !strings.Contains(info.Str, "\n"+is+"\r\n") {
			return fmt.Errorf("wipe %s: it is not so that %s", n.Name, is)
		}
	}
	if v, err := n.Ask(ctx, n.At, "DBSIZE"); err != nil || v.Int != 0 {
		return errors.Join(fmt.Errorf("wipe %s: it still has %d keys", n.Name, v.Int), err)
	}
	return nil
}
