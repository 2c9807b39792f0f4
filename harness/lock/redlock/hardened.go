package redlock

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"lockpick/harness/lock"
	"lockpick/redlock"
	"lockpick/redlock/wire"
)

var _ lock.Factory = Hardened

// Own is the settings that only kind hardened has.
var Own = []lock.Option{
	{Name: "quarantine", Doc: "a node that restarted or lost its data gives no vote for one TTL, so that locks are to be had later; c1 is the administrator who declares new nodes ready", Values: []string{"no", "yes"}, Forgoes: []string{"fault-tolerance", "deadlock-freedom"}},
	{Name: "repair", Doc: "an extension sets the key again on nodes that lost it, once a majority has confirmed the lock", Values: []string{"no", "yes"}},
	{Name: "context", Doc: "the client goes by the lease's context and not by its deadline; it takes the context as soon as it has the lock, or not before it is about to write", Values: []string{"no", "taken", "late"}},
	{Name: "late-timers", Doc: "the lock's timers fire half a TTL late, as on a machine that is overloaded", Values: []string{"no", "yes"}, Forgoes: []string{"fault-tolerance", "deadlock-freedom"}},
	{Name: "wire", Doc: "nodes are asked by package wire, which sends together what is asked together, and not by go-redis", Values: []string{"no", "yes"}},
}

// Hardened returns the lock that the reference's package advises as one client's lock.
func Hardened(env lock.Env) (lock.Lock, error) {
	cfg, err := configure(env)
	if err != nil {
		return nil, err
	}
	own := env.Settings.Options
	l := &hardened{after: env.After, context: own["context"]}
	if own["late-timers"] == "yes" {
		cfg.After = func(d time.Duration) <-chan time.Time { return env.After(d + cfg.TTL/2) }
	}
	if own["wire"] == "yes" {
		cfg.Nodes, l.clients = onWire(env, cfg)
	} else {
		cfg.Nodes, l.clients = onGoRedis(env)
	}
	cfg.Repair = own["repair"] == "yes"
	if own["quarantine"] == "yes" {
		cfg.Quarantine = cfg.TTL
		if env.Client == administrator {
			l.fresh = cfg
		}
	}
	if l.locker, err = redlock.New(cfg); err != nil {
		return nil, errors.Join(err, l.clients.Close())
	}
	return l, nil
}

// onWire are the nodes on package wire.
func onWire(env lock.Env, cfg redlock.Config) (nodes []redlock.Node, closers lock.Clients[*wire.Node]) {
	timeout := cmp.Or(cfg.Timeout, min(50*time.Millisecond, cfg.TTL/10)) // as redlock has it
	for _, n := range env.Nodes {
		w := wire.New(wire.Options{Addr: n.Addr, Dial: env.Dial, Timeout: timeout, Now: cfg.Now, After: cfg.After})
		nodes, closers = append(nodes, wired{w, n.Name}), append(closers, w)
	}
	return nodes, closers
}

// wired is a node on the wire that goes by its name in the run.
type wired struct {
	*wire.Node
	name string
}

func (n wired) String() string { return n.name }

// hardened is the hardened lock as a lock.Lock.
type hardened struct {
	clients io.Closer
	locker  *redlock.Locker
	after   func(time.Duration) <-chan time.Time
	context string         // the option
	fresh   redlock.Config // whose nodes have yet to be declared ready
}

// administrator is the client that knows the nodes to be new when it first acquires.
const administrator = "c1"

// declare tells the nodes that they have forgotten nothing, as whoever sets them up does.
func (l *hardened) declare(ctx context.Context) {
	var asked sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, l.fresh.TTL/2)
	defer cancel()
	for _, n := range l.fresh.Nodes {
		asked.Go(func() { n.(interface{ Ready(context.Context) error }).Ready(ctx) }) // one that doesn't answer begins with a quarantine
	}
	asked.Wait()
	l.fresh.Nodes = nil
}

// Acquire implements lock.Lock. If ctx ended, the error wraps its error.
func (l *hardened) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	l.declare(ctx)
	held, err := l.locker.Acquire(ctx, key)
	if errors.Is(err, redlock.ErrSameNode) {
		return nil, errors.Join(lock.ErrBroken, err)
	}
	if err != nil {
		if ctx.Err() != nil { // what it gives back goes first, also where the client asks again at once
			<-l.after(time.Microsecond)
		}
		return nil, err
	}
	switch l.context {
	case "taken":
		return contextTaken{told{lease{held}}}, nil
	case "late":
		return contextLate{lease{held}}, nil
	}
	return told{lease{held}}, nil
}

// Close implements lock.Lock: first what the lock does in the background, then connections. A
// node that is down at the end is no mistake of the lock's.
func (l *hardened) Close() error {
	err := l.locker.Close()
	if errors.Is(err, redlock.ErrOwed) {
		err = nil
	}
	return errors.Join(err, l.clients.Close())
}

// lease is a held lock.
type lease struct{ held *redlock.Lease }

var (
	_ lock.Extender = lease{}
	_ lock.Tokener  = lease{}
	_ lock.Fencer   = lease{}
	_ lock.Loser    = told{}

	_ lock.Contexter = contextTaken{}
	_ lock.Contexter = contextLate{}
)

func (h lease) Release(ctx context.Context) error { return verdict(h.held.Release(ctx)) }
func (h lease) Extend(ctx context.Context) error  { return verdict(h.held.Extend(ctx)) }
func (h lease) Deadline() time.Time               { return h.held.Until() }
func (h lease) Token() string                     { return h.held.Token() }
func (h lease) Fence() int64                      { return h.held.Fence() }

// told is a lease whose client goes by its deadline, and listens for its loss: its context is in
// use from the start.
type told struct{ lease }

func (h told) Lost() <-chan struct{} { return h.held.Context().Done() }

// contextTaken is the same whose client asks the context.
type contextTaken struct{ told }

func (h contextTaken) Context() context.Context { return h.held.Context() }

// contextLate is a lease whose client requests the context when it asks it, and not before.
type contextLate struct{ lease }

func (h contextLate) Context() context.Context { return h.held.Context() }
