//go:build linux

package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
)

// Nodes are the servers of a run's nodes, and how one takes over from another.
type Nodes struct {
	run *Run

	// These are filled before the run begins.
	Sentinels []*proc.Sentinel
	Patience  time.Duration // for them to promote, once a master is down; 0: promoteBound
	leisure   time.Duration // their failover-timeout while a master is well

	mu       sync.Mutex
	masters  map[string]Server // behind each node's links
	replicas map[string]Server // that have not taken over from a master
	formers  map[string]Server // masters that one has taken over from, by sentinels
}

// Serve lets a server be a node's first.
func (n *Nodes) Serve(node string, master Server) { n.put(&n.masters, node, master) }

// replicate lets a server follow a node by the link at addr, and returns once it is
// in step.
func (n *Nodes) replicate(node string, replica Server, addr string) error {
	if err := replica.Redis().Follow(n.run.Ctx, addr); err != nil {
		return err
	}
	n.put(&n.replicas, node, replica)
	return nil
}

func (n *Nodes) put(in *map[string]Server, node string, s Server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if *in == nil {
		*in = map[string]Server{}
	}
	(*in)[node] = s
}

// Server is what serves a node now, behind its links; none: there is no such node.
func (n *Nodes) Server(node string) Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.masters[node]
}

// Find is Server of a node that there may be.
func (n *Nodes) Find(node string) (s Server, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok = n.masters[node]
	return s, ok
}

// Replica is the one that can take over from a node's master, or none.
func (n *Nodes) Replica(node string) Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replicas[node]
}

// replica is its replica's server, or an error.
func (n *Nodes) replica(node string) (*proc.Server, error) {
	if r := n.Replica(node); r != nil {
		return r.Redis(), nil
	}
	return nil, fmt.Errorf("fail over %s: it has no replica", node)
}

// FailOver kills a node's master and lets the replica take its place behind the
// clients' links. Whoever connects meanwhile finds nobody.
func (n *Nodes) FailOver(node string) (readBack string, err error) {
	replica, err := n.replica(node)
	if err != nil {
		return "", err
	}
	open, err := n.run.Gate(node)
	if err != nil {
		return "", fmt.Errorf("fail over %s: %w", node, err)
	}
	defer func() { err = errors.Join(err, open()) }()
	dead, err := n.run.Kill(node)
	if err != nil {
		return "", err
	}
	back, err := replica.Promote(n.run.Ctx)
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
func (n *Nodes) takeOver(node string) (former Server, err error) {
	replica := n.Replica(node)
	if err := n.run.turn(node, replica.Addr()); err != nil {
		return former, fmt.Errorf("fail over %s: %w", node, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	former, n.masters[node] = n.masters[node], replica
	delete(n.replicas, node)
	return former, nil
}

const (
	sentinels = 3
	quorum    = 2 // of them must agree that a master is down

	promoteBound = 30 * time.Second // elections, some in vain, a second of Redis's own randomness, and a busy machine
	demoteBound  = 15 * time.Second // Redis before 7.0 waits for 8 s, and looks each 10 s

	// urgent is failover-timeout while a master is down: where each sentinel has voted for
	// itself, they vote again after twice as long. A promotion must be done in one of it.
	urgent = 3 * time.Second
)

// startSentinel starts a sentinel that watches nobody yet.
type startSentinel func(name string) (*proc.Sentinel, error)

// Watch starts the sentinels that watch the nodes which the plan leaves to them, and
// returns once they know each other and the replicas. They don't watch the others:
// who pauses a node by another fault doesn't want it replaced. They reach everybody
// past all links, so that no cut between a client and a node is one for them.
func (n *Nodes) Watch(s scenario.Scenario, start startSentinel) error {
	nodes := s.BySentinel()
	if len(nodes) == 0 {
		return nil
	}
	// For as long as failover-timeout a sentinel leaves a replica alone that follows
	// another address than the master's, and ours follow their links, which can be cut.
	n.leisure = s.Limit + 3*time.Minute
	n.Sentinels = make([]*proc.Sentinel, sentinels)
	return n.bySentinels(func(i int) (err error) {
		if n.Sentinels[i], err = start(fmt.Sprintf("sentinel%d", i+1)); err != nil {
			return err
		}
		for _, node := range nodes {
			set := proc.SentinelSettings{Quorum: quorum, DownAfter: s.Topology.DownAfter, FailoverTimeout: n.leisure}
			if err := n.Sentinels[i].Watch(n.run.Ctx, node, n.Server(node).Addr(), set); err != nil {
				return err
			}
		}
		for _, node := range nodes {
			if err := n.Sentinels[i].Meet(n.run.Ctx, node, sentinels); err != nil {
				return err
			}
		}
		return nil
	})
}

// bySentinels does something for each of them, all at once.
func (n *Nodes) bySentinels(f func(i int) error) error {
	var jobs []func() error
	for i := range n.Sentinels {
		jobs = append(jobs, func() error { return f(i) })
	}
	return errors.Join(proc.AtOnce(jobs...)...)
}

// FailOverBySentinel takes a node's master away and waits until a quorum of its
// sentinels says that the replica is the master, and the replica says so, too. Only
// then the clients' links lead to it.
func (n *Nodes) FailOverBySentinel(node string, stop bool) (readBack string, err error) {
	replica, err := n.replica(node)
	if err != nil {
		return "", err
	}
	if k := n.agree(node, n.Server(node).Addr()); k < quorum {
		return "", fmt.Errorf("fail over %s: only %d sentinels watch its master", node, k)
	}
	take := n.run.Kill
	if stop {
		take = n.run.Pause
	}
	gone, err := take(node)
	if err != nil {
		return "", err
	}
	began := time.Now()
	if err := n.awaitPromotion(node, replica); err != nil {
		return "", fmt.Errorf("fail over %s: %w", node, err)
	}
	took := time.Since(began).Round(time.Millisecond)
	open, err := n.run.Gate(node)
	if err != nil {
		return "", fmt.Errorf("fail over %s: %w", node, err)
	}
	defer func() { err = errors.Join(err, open()) }()
	back, err := replica.Promoted(n.run.Ctx)
	if err != nil {
		return "", err
	}
	former, err := n.takeOver(node)
	if err != nil {
		return "", err
	}
	n.put(&n.formers, node, former)
	return fmt.Sprintf("promoted by its sentinels after %v: %s; %s", took, back, gone), nil
}

// agree counts the sentinels that say a node's master is at addr.
func (n *Nodes) agree(node, addr string) int {
	count := 0
	for _, s := range n.Sentinels {
		if is, err := s.Master(n.run.Ctx, node); err == nil && is == addr {
			count++
		}
	}
	return count
}

var errNoPromotion = errors.New("its sentinels promoted nobody")

func (n *Nodes) awaitPromotion(node string, replica *proc.Server) error {
	ctx, cancel := context.WithTimeoutCause(n.run.Ctx, n.patience(), errNoPromotion)
	defer cancel()
	hurried := map[*proc.Sentinel]bool{}
	for n.agree(node, replica.Addr()) < quorum {
		n.hurry(node, hurried)
		select {
		case <-ctx.Done():
			if n.run.Ctx.Err() != nil {
				return context.Cause(n.run.Ctx)
			}
			err := fmt.Errorf("%w in %v; the last word of one of them: %s", errNoPromotion, n.patience(), lastLine(n.Sentinels[0].Log()))
			return errors.Join(err, n.bySentinels(func(i int) error { return n.Sentinels[i].SetFailoverTimeout(n.run.Ctx, node, n.leisure) }))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// hurry shortens failover-timeout in each sentinel that takes a node's master for dead. Not
// before: with a master that is well its replica would be made to follow it past the link.
func (n *Nodes) hurry(node string, done map[*proc.Sentinel]bool) {
	for _, s := range n.Sentinels {
		if !done[s] && s.SeesDown(n.run.Ctx, node) {
			done[s] = s.SetFailoverTimeout(n.run.Ctx, node, urgent) == nil
		}
	}
}

func (n *Nodes) patience() time.Duration { return cmp.Or(n.Patience, promoteBound) }

func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// ReturnMaster brings an old master back, as it was stopped or with what its disk has
// kept, and waits until the sentinels have made it follow the new one. Where they
// don't, that is what became of it, and no error.
func (n *Nodes) ReturnMaster(node string) (string, error) {
	n.mu.Lock()
	back, now := n.formers[node], n.masters[node]
	delete(n.formers, node)
	n.mu.Unlock()
	if back == nil {
		return "", fmt.Errorf("return the old master of %s: its sentinels have replaced none", node)
	}
	again := back.Restart
	if back.Runs() {
		again = back.Resume
	}
	if _, err := again(n.run.Ctx); err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", node, err)
	}
	old := back.Redis()
	had, err := old.Keys(n.run.Ctx)
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", node, err)
	}
	ctx, cancel := context.WithTimeout(n.run.Ctx, demoteBound)
	defer cancel()
	for {
		if follows, err := old.Follows(ctx, now.Addr()); err == nil && follows {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Sprintf("the old master is back (keys: %d), and does not follow the new one after %v", had, demoteBound), nil
		case <-time.After(5 * time.Millisecond):
		}
	}
	has, err := old.Keys(n.run.Ctx)
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", node, err)
	}
	return fmt.Sprintf("the old master is back and follows the new one (keys: %d, now %d)", had, has), nil
}
