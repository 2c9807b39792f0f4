//go:build linux

package real

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/fuse"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

// Links are what clients and servers talk through: a network.Network or a network.Remote.
type Links interface {
	nemesis.Cutter
	nemesis.Shaper
	nemesis.Tapper
	Addresses(client string) (a addresses, ok bool)
	AskStamped(ctx context.Context, addr string, args ...string) (stampedReply, error)
	Begin(origin time.Duration) (epoch int64, err error)
	Gate(node string) (open func() error, err error)
	Turn(node, upstream string) error
	OpenReplication(node, addr string) (link string, err error)
	LetTell(addrs map[string]string) error
	Again(node, addr, why string)
	Ends(node string, inOrder bool) (goesOn func())
}

// server is one redis-server of a backend.
type server interface {
	failoverServer
	Ended() bool  // it runs no more, if only since just now
	Mute() string // why it runs and can't answer; "": it can
	Pause(ctx context.Context) (readBack string, err error)
	Kill(ctx context.Context) (readBack string, err error)
	Shutdown(ctx context.Context) (readBack string, err error)
}

// Run is one run.
type Run[S server] struct {
	*proc.Timeline
	Links // set before the servers are told of
	*fuse.Disks
	*Nodes[S]
	Ctx    context.Context // ends with the run
	Clocks clocks          // of nodes and clients, where they can be turned
	Store  S               // the resource's server

	// Start starts a client, or takes one that waits for its order.
	Start func(name string) (*Client, error)
	// True is true time by CLOCK_MONOTONIC of where servers and clients are; nil: proc.TrueClock.
	True func() time.Duration

	rec   *history.Recorder
	tells bool  // the nodes tell of their keys
	epoch int64 // what a right wall clock shows at true time zero

	mu      sync.Mutex
	clients map[string]*Client // those that run
	ended   map[string]bool    // those that ran and run no more
}

// Begin makes this instant true time zero.
func (r *Run[S]) Begin() (err error) {
	r.Timeline.Begin()
	r.epoch, err = r.Links.Begin(r.Origin())
	return err
}

// TellsLife says whether the record has what the nodes tell of their keys.
func (r *Run[S]) TellsLife() bool { return r.tells }

// Epoch is what a right wall clock shows at true time zero, where the servers are.
func (r *Run[S]) Epoch() int64 { return r.epoch }

// server is what serves a node now, or an error of what was to be done to it.
func (r *Run[S]) server(verb, node string) (S, error) {
	n, ok := r.Nodes.Find(node)
	if !ok {
		return n, fmt.Errorf("%s %s: there is no such node", verb, node)
	}
	return n, nil
}

// up is server of what has to run.
func (r *Run[S]) up(verb, node string) (S, error) {
	n, err := r.server(verb, node)
	if err == nil && !n.Runs() { // nobody would refuse
		err = fmt.Errorf("%s %s: it is down", verb, node)
	}
	return n, err
}

// Resource asks the resource directly. Its error replies are errors.
func (r *Run[S]) Resource(ctx context.Context, args ...string) (any, error) {
	return command(ctx, r.Store.Redis(), "the resource", args)
}

func command(ctx context.Context, s *proc.Server, name string, args []string) (any, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("ask %s: no command", name)
	}
	v, err := s.Ask(ctx, s.Addr(), args...)
	return proc.Answer(name, args, v, err)
}

// Touch writes a key on a node, past the links, and reads it back.
func (r *Run[S]) Touch(node string) (string, error) {
	n, err := r.up("touch", node)
	if err != nil {
		return "", err
	}
	back, err := n.Redis().Touch(r.Ctx, r.Now().String())
	if err != nil {
		return "", err
	}
	return back + r.Unsynced(node), nil
}
