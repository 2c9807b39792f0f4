// Package failover lets an asynchronous replica take the place of a node's master on a
// real backend: by hand, or as sentinels decide.
//
//	clients' links ──► master ── replication link ──► replica
//	      │               ╳                              ▲
//	      └──────────────── turned to ───────────────────┘
//
// Its noun is Nodes, the servers of a run's nodes: the one that serves a node now, the
// replica that may take its place, and the former master that one has replaced. A
// backend embeds it and has the powers that package nemesis declares.
//
// Deliberately missing: what a server runs as (the backend's), what it is asked and
// told (package server), and the links (package link).
package real

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockpick/harness/real/proc"
)

// Server is one server of a backend. Its zero value is none.
type failoverServer interface {
	comparable
	Redis() *proc.Server
	Runs() bool
	Resume(ctx context.Context) (readBack string, err error)
	Restart(ctx context.Context) (readBack string, err error)
}

// Nodes are the servers of a run's nodes. Its functions are called with the name of a
// node that has a replica.
type Nodes[S failoverServer] struct {
	Context context.Context                                  // ends with the run
	Kill    func(node string) (readBack string, err error)   // ends what serves it now
	Pause   func(node string) (readBack string, err error)   // stops it
	Gate    func(node string) (open func() error, err error) // keeps all data of its links meanwhile
	Turn    func(node, upstream string) error                // lets its links lead to another server

	// These are filled before the run begins.
	Sentinels []*proc.Sentinel
	Patience  time.Duration // for them to promote, once a master is down; 0: promoteBound
	leisure   time.Duration // their failover-timeout while a master is well

	mu       sync.Mutex
	masters  map[string]S // behind each node's links
	replicas map[string]S // that have not taken over from a master
	formers  map[string]S // masters that one has taken over from, by sentinels
}

// Serve lets a server be a node's first.
func (n *Nodes[S]) Serve(node string, master S) { n.put(&n.masters, node, master) }

// replicate lets a server follow a node by the link at addr, and returns once it is
// in step.
func (n *Nodes[S]) replicate(node string, replica S, addr string) error {
	if err := replica.Redis().Follow(n.Context, addr); err != nil {
		return err
	}
	n.put(&n.replicas, node, replica)
	return nil
}

func (n *Nodes[S]) put(in *map[string]S, node string, s S) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if *in == nil {
		*in = map[string]S{}
	}
	(*in)[node] = s
}

// Server is what serves a node now, behind its links; none: there is no such node.
func (n *Nodes[S]) Server(node string) S {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.masters[node]
}

// Find is Server of a node that there may be.
func (n *Nodes[S]) Find(node string) (s S, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok = n.masters[node]
	return s, ok
}

// Replica is the one that can take over from a node's master, or none.
func (n *Nodes[S]) Replica(node string) S {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replicas[node]
}

// replica is its replica's server, or an error.
func (n *Nodes[S]) replica(node string) (*proc.Server, error) {
	var none S
	if r := n.Replica(node); r != none {
		return r.Redis(), nil
	}
	return nil, fmt.Errorf("fail over %s: it has no replica", node)
}

// FailOver kills a node's master and lets the replica take its place behind the
// clients' links. Whoever connects meanwhile finds nobody.
func (n *Nodes[S]) FailOver(node string) (readBack string, err error) {
	replica, err := n.replica(node)
	if err != nil {
		return "", err
	}
	open, err := n.Gate(node)
	if err != nil {
		return "", fmt.Errorf("fail over %s: %w", node, err)
	}
	defer func() { err = errors.Join(err, open()) }()
	dead, err := n.Kill(node)
	if err != nil {
		return "", err
	}
	back, err := replica.Promote(n.Context)
	if err != nil {
		return "", err
	}
	if _, err := n.takeOver(node); err != nil {
		return "", err
	}
	return back + "; " + dead, nil
}

// takeOver puts a promoted replica behind the clients' links, and returns the
// former master.
func (n *Nodes[S]) takeOver(node string) (former S, err error) {
	replica := n.Replica(node)
	if err := n.Turn(node, replica.Redis().Addr()); err != nil {
		return former, fmt.Errorf("fail over %s: %w", node, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	former, n.masters[node] = n.masters[node], replica
	delete(n.replicas, node)
	return former, nil
}
