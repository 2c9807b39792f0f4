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

// Nodes maps a run's nodes to their servers and performs failovers.
type Nodes struct {
	run *Run

	// Set before the run begins.
	Sentinels      []*proc.Sentinel
	PromoteTimeout time.Duration // for a promotion after a master went down; 0 means the default
	normalTimeout  time.Duration // the sentinels' failover-timeout while no master is down

	mu            sync.Mutex
	masters       map[string]Server // servers behind the nodes' links
	replicas      map[string]Server // replicas that have not taken over
	formerMasters map[string]Server // masters replaced by sentinels
}

// SetMaster sets a node's first server.
func (n *Nodes) SetMaster(node string, master Server) { n.setServer(&n.masters, node, master) }

// replicate makes a server the node's replica and waits until it is in sync. The replica reaches
// the node through the link at addr.
func (n *Nodes) replicate(node string, replica Server, addr string) error {
	if err := replica.Redis().Follow(n.run.Ctx, addr); err != nil {
		return err
	}
	n.setServer(&n.replicas, node, replica)
	return nil
}

func (n *Nodes) setServer(servers *map[string]Server, node string, s Server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if *servers == nil {
		*servers = map[string]Server{}
	}
	(*servers)[node] = s
}

// Server returns the server that currently runs as the node, or nil if there is no such node.
// Clients reach it through the node's links.
func (n *Nodes) Server(node string) Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.masters[node]
}

// Find is like Server, but reports whether there is such a node.
func (n *Nodes) Find(node string) (s Server, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok = n.masters[node]
	return s, ok
}

// Replica returns the server that can take over from a node's master, or nil.
func (n *Nodes) Replica(node string) Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.replicas[node]
}

func (n *Nodes) replicaServer(node string) (*proc.Server, error) {
	if r := n.Replica(node); r != nil {
		return r.Redis(), nil
	}
	return nil, fmt.Errorf("fail over %s: the node has no replica", node)
}

// FailOver kills a node's master and redirects the clients' links to the replica. Until then,
// connections to the node reach no server.
func (n *Nodes) FailOver(node string) (readBack string, err error) {
	replica, err := n.replicaServer(node)
	if err != nil {
		return "", err
	}
	release, err := n.run.HoldTraffic(node)
	if err != nil {
		return "", fmt.Errorf("fail over %s: %w", node, err)
	}
	defer func() { err = errors.Join(err, release()) }()
	killReadBack, err := n.run.Kill(node)
	if err != nil {
		return "", err
	}
	back, err := replica.Promote(n.run.Ctx)
	if err != nil {
		return "", err
	}
	if _, err := n.switchToReplica(node); err != nil {
		return "", err
	}
	return back + "; " + killReadBack, nil
}

// switchToReplica redirects the clients' links to the promoted replica and returns the former
// master.
func (n *Nodes) switchToReplica(node string) (former Server, err error) {
	replica := n.Replica(node)
	if err := n.run.redirectToReplica(node, replica.Addr()); err != nil {
		return former, fmt.Errorf("fail over %s: %w", node, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	former, n.masters[node] = n.masters[node], replica
	delete(n.replicas, node)
	return former, nil
}

const (
	sentinelCount  = 3
	sentinelQuorum = 2 // number of sentinels that must agree that a master is down

	defaultPromoteTimeout = 30 * time.Second // allows for repeated elections, Redis's random delay of up to a second, and a busy machine
	demoteTimeout         = 15 * time.Second // Redis before 7.0 waits for 8 s and checks every 10 s

	// urgentFailoverTimeout is the failover-timeout while a master is down. If every sentinel has
	// voted for itself, all vote again after twice this timeout. A promotion must complete within
	// the timeout.
	urgentFailoverTimeout = 3 * time.Second
)

// sentinelStarter starts a sentinel that does not monitor any master yet.
type sentinelStarter func(name string) (*proc.Sentinel, error)

// StartSentinels starts sentinels to monitor the nodes for which the plan has a failover by
// sentinels, and waits until they have discovered each other and the replicas. They don't monitor
// other nodes, because a sentinel must not replace a node that another fault has paused. They
// bypass all links, so that a cut between a client and a node does not affect them.
func (n *Nodes) StartSentinels(s scenario.Scenario, start sentinelStarter) error {
	nodes := s.SentinelNodes()
	if len(nodes) == 0 {
		return nil
	}
	// A sentinel tolerates for failover-timeout that a replica follows an address other than the
	// master's. Our replicas follow the address of their link, which can be cut.
	n.normalTimeout = s.Limit + 3*time.Minute
	n.Sentinels = make([]*proc.Sentinel, sentinelCount)
	return n.forEachSentinel(func(i int) (err error) {
		if n.Sentinels[i], err = start(fmt.Sprintf("sentinel%d", i+1)); err != nil {
			return err
		}
		for _, node := range nodes {
			set := proc.SentinelSettings{Quorum: sentinelQuorum, DownAfter: s.Topology.DownAfter, FailoverTimeout: n.normalTimeout}
			if err := n.Sentinels[i].Watch(n.run.Ctx, node, n.Server(node).Addr(), set); err != nil {
				return err
			}
		}
		for _, node := range nodes {
			if err := n.Sentinels[i].AwaitPeers(n.run.Ctx, node, sentinelCount); err != nil {
				return err
			}
		}
		return nil
	})
}

// forEachSentinel calls f concurrently for each sentinel's index.
func (n *Nodes) forEachSentinel(f func(i int) error) error {
	var jobs []func() error
	for i := range n.Sentinels {
		jobs = append(jobs, func() error { return f(i) })
	}
	return errors.Join(proc.Parallel(jobs...)...)
}

// FailOverBySentinel pauses or kills a node's master. It waits until a quorum of sentinels and the
// replica itself report the replica as master, and then redirects the clients' links.
func (n *Nodes) FailOverBySentinel(node string, pause bool) (readBack string, err error) {
	replica, err := n.replicaServer(node)
	if err != nil {
		return "", err
	}
	if k := n.countAgreeing(node, n.Server(node).Addr()); k < sentinelQuorum {
		return "", fmt.Errorf("fail over %s: only %d sentinels monitor its master", node, k)
	}
	disable := n.run.Kill
	if pause {
		disable = n.run.Pause
	}
	disableReadBack, err := disable(node)
	if err != nil {
		return "", err
	}
	start := time.Now()
	if err := n.awaitPromotion(node, replica); err != nil {
		return "", fmt.Errorf("fail over %s: %w", node, err)
	}
	elapsed := time.Since(start).Round(time.Millisecond)
	release, err := n.run.HoldTraffic(node)
	if err != nil {
		return "", fmt.Errorf("fail over %s: %w", node, err)
	}
	defer func() { err = errors.Join(err, release()) }()
	back, err := replica.ConfirmPromoted(n.run.Ctx)
	if err != nil {
		return "", err
	}
	former, err := n.switchToReplica(node)
	if err != nil {
		return "", err
	}
	n.setServer(&n.formerMasters, node, former)
	return fmt.Sprintf("promoted by its sentinels after %v: %s; %s", elapsed, back, disableReadBack), nil
}

// countAgreeing counts the sentinels that report addr as the node's master.
func (n *Nodes) countAgreeing(node, addr string) int {
	count := 0
	for _, s := range n.Sentinels {
		if master, err := s.Master(n.run.Ctx, node); err == nil && master == addr {
			count++
		}
	}
	return count
}

var errNoPromotion = errors.New("the sentinels did not promote the replica")

func (n *Nodes) awaitPromotion(node string, replica *proc.Server) error {
	ctx, cancel := context.WithTimeoutCause(n.run.Ctx, n.promoteTimeout(), errNoPromotion)
	defer cancel()
	urgentSentinels := map[*proc.Sentinel]bool{}
	for n.countAgreeing(node, replica.Addr()) < sentinelQuorum {
		n.shortenTimeouts(node, urgentSentinels)
		select {
		case <-ctx.Done():
			if n.run.Ctx.Err() != nil {
				return context.Cause(n.run.Ctx)
			}
			err := fmt.Errorf("%w within %v; last log line of %s: %s", errNoPromotion, n.promoteTimeout(), n.Sentinels[0].Name, lastLine(n.Sentinels[0].Log()))
			return errors.Join(err, n.forEachSentinel(func(i int) error { return n.Sentinels[i].SetFailoverTimeout(n.run.Ctx, node, n.normalTimeout) }))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// shortenTimeouts shortens failover-timeout in each sentinel that considers the node's master down.
// While the master is up, the shorter timeout would make the sentinel reconfigure the replica to
// bypass its link.
func (n *Nodes) shortenTimeouts(node string, done map[*proc.Sentinel]bool) {
	for _, s := range n.Sentinels {
		if !done[s] && s.ConsidersDown(n.run.Ctx, node) {
			done[s] = s.SetFailoverTimeout(n.run.Ctx, node, urgentFailoverTimeout) == nil
		}
	}
}

func (n *Nodes) promoteTimeout() time.Duration {
	return cmp.Or(n.PromoteTimeout, defaultPromoteTimeout)
}

func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// ReturnMaster resumes or restarts a former master with the data left on its disk, and waits until
// the sentinels make it follow the new master. If they never do, that is an effect of the fault,
// not an error.
func (n *Nodes) ReturnMaster(node string) (string, error) {
	n.mu.Lock()
	former, current := n.formerMasters[node], n.masters[node]
	delete(n.formerMasters, node)
	n.mu.Unlock()
	if former == nil {
		return "", fmt.Errorf("return the old master of %s: its sentinels have not replaced it", node)
	}
	start := former.Restart
	if former.Running() {
		start = former.Resume
	}
	if _, err := start(n.run.Ctx); err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", node, err)
	}
	old := former.Redis()
	keysBefore, err := old.Keys(n.run.Ctx)
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", node, err)
	}
	ctx, cancel := context.WithTimeout(n.run.Ctx, demoteTimeout)
	defer cancel()
	for {
		if follows, err := old.IsReplicaOf(ctx, current.Addr()); err == nil && follows {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Sprintf("the old master is back (keys: %d) but does not follow the new one after %v", keysBefore, demoteTimeout), nil
		case <-time.After(5 * time.Millisecond):
		}
	}
	keysAfter, err := old.Keys(n.run.Ctx)
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", node, err)
	}
	return fmt.Sprintf("the old master is back and follows the new one (keys: %d, now %d)", keysBefore, keysAfter), nil
}
