// Package sim is the backend of virtual time: it runs unmodified client code,
// lock libraries and go-redis against simulated Redis nodes over a simulated
// network, a minute in milliseconds, and the same seed gives the same history,
// byte for byte.
//
// Its nouns: a bubble (of testing/synctest) holds a run; a timeline is its true
// time; a network has hosts, on which clients run, servers, on which nodes run
// (package sim/node), and links between them; a conn is a TCP connection over a
// link, a flow one direction of it, and a message what travels there.
//
// Three rules make it deterministic. No two things happen at one instant
// (timeline.go). Every random value is a hash of its name (hash.go). And whoever
// is paused blocks, and is let go at an instant of his own (host.go). What it
// can't tame: a select among several ready channels, the order of maps, and the
// global random numbers of the code under test.
//
// A lock that reads package time itself, and not its Env, gets a wrong clock by a
// bubble of its client's own, whose time runs at the client's rate in lock-step
// with true time (own.go, lockstep.go). Such a clock can run fast or slow. It can't
// be set: in a bubble package time has no monotonic clock besides the wall clock,
// and never goes back.
//
// Deliberately missing: a scheduler of goroutines, and a watchdog on the wall clock
// for the run's own bubble, which belongs to the process that starts runs (see inBubble).
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

// Backend simulates clusters. Runs may be concurrent, but a run has most of a
// core's speed if it has the process to itself, with GOMAXPROCS=1.
type Backend struct {
	locks map[string]lock.Kind

	// Digest, if it isn't nil, is given a digest of all that was sent over the
	// network at the end of each run: contents, instants of sending and of
	// delivery. It finds irreproducible runs whose histories happen to be equal.
	Digest func(uint64)

	spare    func(history.Event) bool // see Sparing; nil: nobody is asked
	patience time.Duration            // real time for one step of a client's own bubble; 0: 30 s
}

var _ harness.Backend = (*Backend)(nil)

// New returns a backend whose clients can use these kinds of locks.
func New(locks map[string]lock.Kind) *Backend { return &Backend{locks: locks} }

// Name is "sim".
func (b *Backend) Name() string { return "sim" }

// Probe says what the simulation can do, which is the same on every machine.
func (b *Backend) Probe(context.Context) []harness.Capability {
	var out []harness.Capability
	for _, name := range []string{harness.CanRun, scenario.CanBeExact, scenario.CanPersist, scenario.CanReplicate, scenario.CanTellLife, scenario.CanExpireMonotonic} {
		out = append(out, harness.Capability{Name: name, Available: true})
	}
	out = append(out,
		harness.Capability{Name: scenario.CanImage, Reason: "simulated nodes run no image", Remedy: "run it in containers (--backend docker)"},
		harness.Capability{Name: scenario.CanSetOwnTime, Reason: oneClock, Remedy: "run it on real processes (--backend process)"})
	for _, store := range scenario.Stores() {
		out = append(out, harness.Capability{Name: store, Reason: "simulated nodes are Redis", Remedy: "run it on real processes (--backend process)"})
	}
	return append(out, harness.PowersOf((*cluster)(nil), uncontained...)...)
}

// uncontained is what only containers have.
var uncontained = []harness.Capability{
	{Name: nemesis.Capability(nemesis.PowerPackets, nemesis.Link), Reason: "simulated connections carry messages, no packets", Remedy: "use --backend docker, or a cut of another mode"},
	{Name: nemesis.Capability("unplug", nemesis.Node), Reason: "simulated nodes have links, no network cable", Remedy: "use --backend docker, or cut the node's links"},
	{Name: nemesis.Capability("starve", nemesis.Node), Reason: "simulated nodes need neither processor nor memory", Remedy: "use --backend docker, or pause the node"},
}

// Run runs body in virtual time, which begins at nought. ctx is looked at before
// the run only: a run takes milliseconds, and a context from outside the bubble
// must neither be waited for in it nor end one that was derived from it there.
func (b *Backend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := supports(s, b.locks[s.Lock.Kind]); err != nil {
		return fmt.Errorf("simulate %s: %w", s.ID(), err)
	}
	var bodyErr, crash error
	var digest uint64
	var hung bool
	owns, over := b.bubbles(s)
	bubbleErr := inBubble(func() {
		c := newCluster(s, seed, rec, owns)
		c.spare = b.spare
		c.locks = b.locks
		if b.locks[s.Lock.Kind].OwnTokens {
			c.tokens = tokens{}
		}
		crash = protect("run scenario", func() { bodyErr = body(context.Background(), c) })
		c.close()
		digest = c.digest()
		hung = slices.ContainsFunc(c.hosts, func(h *host) bool { return h.hung })
	})
	close(over)
	if b.locks[s.Lock.Kind].OwnTime {
		forget()
	}
	ends := []error{bubbleErr}
	for _, o := range owns {
		ends = append(ends, o.end())
	}
	if hung { // which the record tells
		ends = slices.DeleteFunc(ends, leftBehind)
	}
	if b.Digest != nil {
		b.Digest(digest)
	}
	return errors.Join(bodyErr, crash, errors.Join(ends...))
}

// forget empties what libraries keep for later in pools, twice as a pool's items outlive one
// collection: a timer that was made in one bubble must not be used in another.
func forget() {
	runtime.GC()
	runtime.GC()
}

// bubbles makes those that clients have to themselves; none: they share the run's.
func (b *Backend) bubbles(s scenario.Scenario) (owns []*own, over chan struct{}) {
	over = make(chan struct{})
	if apart(s, b.locks[s.Lock.Kind]) {
		for _, c := range s.Clients {
			o := newOwn()
			owns = append(owns, o)
			go o.watch(c.Name, cmp.Or(b.patience, 30*time.Second), over)
		}
	}
	return owns, over
}

func supports(s scenario.Scenario, k lock.Kind) error {
	switch p := s.Topology.Persistence; {
	case !slices.Contains([]string{"", scenario.PersistNone, string(node.EverySec), string(node.Always), string(node.No)}, p):
		return fmt.Errorf("nodes with persistence %q can't be simulated: use none, everysec, always or no", p)
	case slices.Contains(s.NeedsOf(k), scenario.CanSetOwnTime):
		return fmt.Errorf("a client's clock can't be set: %s", oneClock)
	case s.Topology.Replicas > 1:
		return fmt.Errorf("%d replicas of each node can't be simulated: use one", s.Topology.Replicas)
	}
	return fits(s)
}

// Sparing asks before a key is changed, deleted, flushed, expired, lost or reverted.
func (b *Backend) Sparing(spare func(history.Event) bool) harness.Backend {
	other := *b
	other.spare = spare
	return &other
}

// Fits says why a scenario is too large, whatever the machine.
func (*Backend) Fits(s scenario.Scenario) error { return fits(s) }

func fits(s scenario.Scenario) error {
	switch {
	case s.Topology.Nodes < 1 || s.Topology.Nodes > 250:
		return fmt.Errorf("%d nodes can't be simulated: use 1 to 250", s.Topology.Nodes)
	case 2*len(s.Clients)*(s.Topology.Nodes+1) > firstClientSlot || len(s.Clients) > 250:
		return fmt.Errorf("%d clients with %d nodes are more links than the simulation has: use fewer", len(s.Clients), s.Topology.Nodes)
	}
	return nil
}

// newCluster makes all machines and links. It is called in the bubble.
func newCluster(s scenario.Scenario, seed uint64, rec *history.Recorder, owns []*own) *cluster {
	n := &network{seed: seed, rec: rec}
	n.wires.net = n
	n.timeline = newTimeline(owns != nil, &n.mu)
	for i, name := range append(s.NodeNames(), scenario.ResourceName) {
		srv := &server{net: n, name: name, addr: address(0, i), slot: slot(firstServerSlot + i), clock: node.NewClock(time.Now().UnixNano(), n.now)}
		srv.mono = s.Topology.Expiry == scenario.ExpiryMonotonic
		if p := s.Topology.Persistence; p != "" && p != scenario.PersistNone && name != scenario.ResourceName {
			srv.disk = node.NewDisk(node.Fsync(p))
		}
		if s.Topology.Replicas > 0 && name != scenario.ResourceName {
			srv.replica = newReplica(srv, slot(firstReplicaSlot+i), node.NewClock(time.Now().UnixNano(), n.now))
		}
		if name != scenario.ResourceName {
			srv.witness = &witness{server: srv}
		}
		srv.start()
		n.servers = append(n.servers, srv)
	}
	n.resource = n.servers[len(n.servers)-1]
	for i, c := range s.Clients {
		h := &host{net: n, name: c.Name, addr: address(1, i), slot: slot(firstClientSlot + i), dead: make(chan struct{}),
			clocks: clocks{wall: node.NewClock(time.Now().UnixNano(), n.now), monotonic: node.NewClock(time.Now().UnixNano(), n.now)}}
		if owns != nil {
			h.own = owns[i]
		}
		n.hosts = append(n.hosts, h)
		for _, srv := range n.servers {
			l := n.connect(h, srv)
			l.refuses = c.Reach != nil && srv.name != scenario.ResourceName && !slices.Contains(c.Reach, srv.name)
		}
	}
	if owns != nil {
		go n.lockStep()
	}
	return &cluster{network: n, slot: slot(harnessSlot), clients: clients{net: n},
		sentinels: sentinels{net: n, downAfter: s.Topology.DownAfter, formers: map[string]*former{}}}
}

// address is an IP literal: for a name, clients would ask a real DNS.
func address(subnet byte, i int) *net.TCPAddr {
	return &net.TCPAddr{IP: net.IPv4(10, 0, subnet, byte(i+1)), Port: 6379}
}
