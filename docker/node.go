//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"lockpick/harness/real/fuse"
	"lockpick/harness/real/proc"
)

// redisPort is where every server listens in its container.
const redisPort = "6379"

// node is a redis-server in a container. It keeps its address and its data when it
// is killed and started again.
type node struct {
	proc.Server
	*box
	base    *base
	address *address
	want    wanted
	disk    *fuse.Disk // that can be hit; nil: it has none

	changing sync.Mutex // held while it is started or ended
	is       proc.Identity

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

// command is Ask whose error replies are errors.
func (n *node) command(ctx context.Context, name string, args []string) (any, error) {
	v, err := n.Ask(ctx, n.At, args...)
	return proc.Answer(name, args, v, err)
}

// tell tells the links how it is: they close the clients of one that is down at once,
// since a connect to an address where nobody is takes seconds to fail.
func (n *node) tell(ctx context.Context) {
	remote, err := n.base.network(ctx)
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

// Mute says why it is there and can't answer; "": it can.
func (n *node) Mute() string {
	switch {
	case n.Paused():
		return "it is paused"
	case n.unplugged.Load():
		return "it is unplugged"
	}
	return ""
}

// quiet waits until it is not just being started or ended, and keeps it from that until
// done is called, which tells the links how it is.
func (n *node) quiet(ctx context.Context) (done func()) {
	n.changing.Lock()
	return func() {
		n.changing.Unlock()
		n.tell(ctx)
	}
}

// Pause freezes it.
func (n *node) Pause(ctx context.Context) (readBack string, err error) {
	defer n.quiet(ctx)()
	return n.box.Pause(ctx)
}

// Resume lets it go on.
func (n *node) Resume(ctx context.Context) (readBack string, err error) {
	defer n.tell(ctx)
	return n.box.Resume(ctx)
}

// begin starts it and returns once it answers.
func (n *node) begin(ctx context.Context) (err error) {
	if err := n.start(ctx); err != nil {
		return err
	}
	if err := n.want.turner.open(ctx, n.box); err != nil {
		return err
	}
	ended := n.Done()
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

// Restart starts it again when it has ended, with what its disk kept, and says which
// process answers now and how many keys it has.
func (n *node) Restart(ctx context.Context) (readBack string, err error) {
	if n.unplugged.Load() {
		return "", fmt.Errorf("restart %s: it is unplugged, and nobody would see whether it is back", n.Name)
	}
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

// Shutdown asks it to end in good order, and waits until it has.
func (n *node) Shutdown(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	switch {
	case !n.Runs():
		return "", fmt.Errorf("shut %s down: it does not run", n.Name)
	case n.Paused() || n.unplugged.Load():
		return "", fmt.Errorf("shut %s down: it is paused or unplugged, and hears nothing", n.Name)
	}
	n.mayEnd(true)
	if err := n.Server.End(ctx, n.Done()); err != nil {
		n.mayEnd(false)
		return "", err
	}
	if err := n.box.End(); err != nil {
		return "", fmt.Errorf("shut %s down: it ended with %w:\n%s", n.Name, err, n.Log())
	}
	n.tell(ctx)
	return fmt.Sprintf("container %.12s ended in good order", n.id), nil
}

// Kill ends it without warning.
func (n *node) Kill(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	return n.end(ctx)
}

// end is Kill for who holds changing.
func (n *node) end(ctx context.Context) (readBack string, err error) {
	back, err := n.box.Kill(ctx)
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

// address is a container that does nothing but to have an address on the site's network,
// as a machine has. A node that shares its network is started and ended in less than
// half the time: the engine need not make the network anew.
type address struct {
	*box
	host int
}
