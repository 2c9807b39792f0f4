// Package sim is the virtual-time backend. It runs unmodified client code, lock libraries and
// go-redis against simulated Redis nodes over a simulated network. A simulated minute takes
// milliseconds, and the same seed gives the same history, byte for byte.
//
// Terms: each run takes place in a bubble (see testing/synctest). The timeline defines true time. A
// network has hosts, which run clients; servers, which run nodes (package sim/node); and links
// between them. A conn is a TCP connection over a link, a flow is one direction of a conn, and a
// message is a piece of data sent along a flow.
//
// Three rules make a run deterministic. No two events happen at the same instant (see timeline).
// Every random value is a hash of a name. Paused code blocks, and each blocked goroutine resumes at
// a different instant (server.go). Three sources of nondeterminism remain: a select among several
// ready channels, map iteration order, and the global random numbers of the code under test.
//
// Even a lock that reads package time directly, bypassing its Env, can be given a wrong clock: its
// client then runs in its own bubble, where time advances at the client's rate, in lockstep with
// true time (clock.go). Such a clock can run fast or slow, but it can't be set, because package
// time has a single clock in a bubble, and that clock never goes back.
//
// Deliberately missing: a goroutine scheduler, and a real-time watchdog for the run's bubble. The
// process that starts runs must provide the watchdog (see inBubble).
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

// Backend simulates clusters. Runs may be concurrent, but a run is fastest if no other run shares
// the process and GOMAXPROCS is 1.
type Backend struct {
	locks map[string]lock.Kind

	// Digest, if not nil, is called at the end of each run with a digest of everything sent over
	// the network: contents, send times and delivery times. Comparing digests exposes
	// irreproducible runs whose histories happen to be equal.
	Digest func(uint64)

	preserve    func(history.Event) bool // see WithPreservedKeys; may be nil
	stepTimeout time.Duration            // real-time limit for one step of a client's own bubble; 0: 30 s
}

var _ harness.Backend = (*Backend)(nil)

// New returns a backend whose clients can use the given lock kinds.
func New(locks map[string]lock.Kind) *Backend { return &Backend{locks: locks} }

// Name returns "sim".
func (b *Backend) Name() string { return "sim" }

// Probe lists the simulation's capabilities, which are the same on every machine.
func (b *Backend) Probe(context.Context) []harness.Capability {
	var capabilities []harness.Capability
	for _, name := range []string{harness.RunCapability, scenario.ExactInstantsCapability, scenario.PersistenceCapability, scenario.ReplicasCapability, scenario.KeyLifeCapability, scenario.MonotonicExpiryCapability} {
		capabilities = append(capabilities, harness.Capability{Name: name, Available: true})
	}
	capabilities = append(capabilities,
		harness.Capability{Name: scenario.ImageCapability, Reason: "simulated nodes do not run images", Remedy: "run it in containers (--backend docker)"},
		harness.Capability{Name: scenario.OwnTimeCapability, Reason: oneClockReason, Remedy: "run it on real processes (--backend process)"})
	for _, store := range lock.Servers() {
		capabilities = append(capabilities, harness.Capability{Name: store, Reason: "simulated nodes are Redis", Remedy: "run it on real processes (--backend process)"})
	}
	return append(capabilities, harness.CapabilitiesOf((*cluster)(nil), containerCapabilities...)...)
}

// containerCapabilities are the capabilities that require containers.
var containerCapabilities = []harness.Capability{
	{Name: nemesis.Capability(nemesis.PacketsCapability, nemesis.Link), Reason: "simulated connections carry messages, not packets", Remedy: "use --backend docker, or a cut in another mode"},
	{Name: nemesis.Capability("unplug", nemesis.Node), Reason: "simulated nodes have links but no network cable", Remedy: "use --backend docker, or cut the node's links"},
	{Name: nemesis.Capability("starve", nemesis.Node), Reason: "simulated nodes use neither CPU nor memory", Remedy: "use --backend docker, or pause the node"},
}

// Run runs body in virtual time, starting at zero. It checks ctx only once, before the run: a run
// takes milliseconds, and code in the bubble must not wait for a context created outside the bubble
// or derive one from it.
func (b *Backend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkSupported(s, b.locks[s.Lock.Kind]); err != nil {
		return fmt.Errorf("simulate %s: %w", s.ID(), err)
	}
	var bodyErr, panicErr error
	var digest uint64
	var anyHung bool
	bubbles, runEnded := b.newClientBubbles(s)
	bubbleErr := inBubble(func() {
		c := newCluster(s, seed, rec, bubbles)
		c.preserve = b.preserve
		c.locks = b.locks
		if b.locks[s.Lock.Kind].OwnTokens {
			c.tokens = tokens{}
		}
		panicErr = protect("run scenario", func() { bodyErr = body(context.Background(), c) })
		c.close()
		digest = c.digest()
		anyHung = slices.ContainsFunc(c.hosts, func(h *host) bool { return h.hung })
	})
	close(runEnded)
	if b.locks[s.Lock.Kind].OwnTime {
		emptyPools()
	}
	errs := []error{bubbleErr}
	for _, o := range bubbles {
		errs = append(errs, o.close())
	}
	if anyHung { // the history already shows the hung client
		errs = slices.DeleteFunc(errs, isLeakError)
	}
	if b.Digest != nil {
		b.Digest(digest)
	}
	return errors.Join(bodyErr, panicErr, errors.Join(errs...))
}

// emptyPools empties the sync.Pools of libraries, because a timer created in one bubble must not be
// used in another. It collects garbage twice because pooled items survive the first collection.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// newClientBubbles creates a bubble for each client, or none if the clients share the run's bubble.
// The caller must close runEnded after the run.
func (b *Backend) newClientBubbles(s scenario.Scenario) (bubbles []*clientBubble, runEnded chan struct{}) {
	runEnded = make(chan struct{})
	if needsClientBubbles(s, b.locks[s.Lock.Kind]) {
		for _, c := range s.Clients {
			o := newClientBubble()
			bubbles = append(bubbles, o)
			go o.watch(c.Name, cmp.Or(b.stepTimeout, 30*time.Second), runEnded)
		}
	}
	return bubbles, runEnded
}

func checkSupported(s scenario.Scenario, k lock.Kind) error {
	switch persistence := s.Topology.Persistence; {
	case !slices.Contains([]string{"", scenario.PersistNone, string(node.EverySec), string(node.Always), string(node.No)}, persistence):
		return fmt.Errorf("nodes with persistence %q can't be simulated: use \"none\", \"everysec\", \"always\" or \"no\"", persistence)
	case slices.Contains(s.RequiredCapabilitiesForLock(k), scenario.OwnTimeCapability):
		return fmt.Errorf("a client's clock can't be set: %s", oneClockReason)
	case s.Topology.Replicas > 1:
		return fmt.Errorf("%d replicas of each node can't be simulated: use one", s.Topology.Replicas)
	}
	return checkSize(s)
}

// WithPreservedKeys returns a backend that calls preserve before a key is changed, deleted,
// flushed, expired, lost or reverted. If preserve returns true, the key stays as it is.
func (b *Backend) WithPreservedKeys(preserve func(history.Event) bool) harness.Backend {
	other := *b
	other.preserve = preserve
	return &other
}

// Fits returns an error if the scenario is too large to be simulated on any machine.
func (*Backend) Fits(s scenario.Scenario) error { return checkSize(s) }

func checkSize(s scenario.Scenario) error {
	switch {
	case s.Topology.Nodes < 1 || s.Topology.Nodes > 250:
		return fmt.Errorf("%d nodes can't be simulated: use 1 to 250", s.Topology.Nodes)
	case 2*len(s.Clients)*(s.Topology.Nodes+1) > firstClientSlot || len(s.Clients) > 250:
		return fmt.Errorf("%d clients with %d nodes need more links than the simulation has: use at most %d clients, or fewer nodes",
			len(s.Clients), s.Topology.Nodes, min(firstClientSlot/2/(s.Topology.Nodes+1), 250))
	}
	return nil
}

// newCluster creates all machines and links. It must be called in the run's bubble.
func newCluster(s scenario.Scenario, seed uint64, rec *history.Recorder, bubbles []*clientBubble) *cluster {
	n := &network{seed: seed, rec: rec}
	n.linkSet.net = n
	n.timeline = newTimeline(bubbles != nil, &n.mu)
	for i, name := range append(s.NodeNames(), scenario.ResourceName) {
		srv := &server{net: n, name: name, addr: address(0, i), slot: slot(firstServerSlot + i), clock: node.NewClock(time.Now().UnixNano(), n.now)}
		srv.monotonic = s.Topology.Expiry == scenario.ExpiryMonotonic
		if p := s.Topology.Persistence; p != "" && p != scenario.PersistNone && name != scenario.ResourceName {
			srv.disk = node.NewDisk(node.Fsync(p))
		}
		if s.Topology.Replicas > 0 && name != scenario.ResourceName {
			srv.replica = newReplica(srv, slot(firstReplicaSlot+i), node.NewClock(time.Now().UnixNano(), n.now))
		}
		if name != scenario.ResourceName {
			srv.recorder = &lifeRecorder{server: srv}
		}
		srv.start()
		n.servers = append(n.servers, srv)
	}
	n.resource = n.servers[len(n.servers)-1]
	for i, c := range s.Clients {
		h := &host{net: n, name: c.Name, addr: address(1, i), slot: slot(firstClientSlot + i), killSignal: make(chan struct{}),
			clocks: clocks{wall: node.NewClock(time.Now().UnixNano(), n.now), monotonic: node.NewClock(time.Now().UnixNano(), n.now)}}
		if bubbles != nil {
			h.bubble = bubbles[i]
		}
		n.hosts = append(n.hosts, h)
		for _, srv := range n.servers {
			l := n.connect(h, srv)
			l.unreachable = c.Reach != nil && srv.name != scenario.ResourceName && !slices.Contains(c.Reach, srv.name)
		}
	}
	if bubbles != nil {
		go n.lockStep()
	}
	return &cluster{network: n, slot: slot(harnessSlot), clientRunner: clientRunner{net: n},
		sentinels: sentinels{net: n, downAfter: s.Topology.DownAfter, replaced: map[string]*replacedMaster{}}}
}

// address returns an IP address, not a host name: clients would query a real DNS server for a name.
func address(subnet byte, i int) *net.TCPAddr {
	return &net.TCPAddr{IP: net.IPv4(10, 0, subnet, byte(i+1)), Port: 6379}
}

// cluster implements harness.Cluster.
type cluster struct {
	*network
	clientRunner
	sentinels
	slot slot // slot of the engine's own events
}

var _ harness.Cluster = (*cluster)(nil)

// TimestampUncertainty returns zero because the simulation defines true time.
func (c *cluster) TimestampUncertainty() time.Duration { return 0 }

// At calls f in a new goroutine at a unique instant, at most a few microseconds after t. It does
// nothing once the run has ended.
func (c *cluster) At(t time.Duration, f func()) {
	c.at(c.slot, int64(t), func() {
		if c.rec != nil {
			go f()
		}
	})
}

// Resource runs one command on the resource, bypassing the network.
func (c *cluster) Resource(_ context.Context, args ...string) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource.node.Do(args...)
}

// NodeReport reports that nodes record each key's life, and lists the Redis commands that clients
// sent and the nodes don't support.
func (c *cluster) NodeReport() harness.NodeReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := harness.NodeReport{ReportsKeys: true, Epoch: c.start.UnixNano()}
	for _, s := range c.servers {
		for _, command := range slices.Sorted(maps.Keys(s.unsupported)) {
			r.Unsupported = append(r.Unsupported, harness.UnsupportedCommand{Node: s.name, Command: command, Count: s.unsupported[command]})
		}
	}
	return r
}

// coolDown is the virtual time that goroutines get to unwind after the run.
const coolDown = time.Minute

// close ends the run: it records unanswered commands, ends every fault, kills every client and
// waits until the clients' goroutines have unwound.
func (c *cluster) close() {
	c.mu.Lock()
	for _, l := range c.links {
		c.recordCommands(l, l.openCommands())
	}
	c.rec = nil
	for _, l := range c.links {
		l.mend()
		for _, t := range l.taps {
			t.release()
		}
	}
	for _, h := range c.hosts {
		h.kill()
	}
	c.mu.Unlock()
	c.sleep(c.slot, c.now()+int64(coolDown))
	c.stop()
	for _, s := range c.servers {
		if s.node != nil {
			s.node.Close()
		}
		if s.replica != nil {
			s.replica.node.Close()
		}
	}
}

// inBubble runs f in a bubble, whose virtual time begins on 2000-01-01, and returns when all
// goroutines in the bubble have ended. It returns an error if f panics or if all goroutines
// deadlock; deadlocked goroutines leak until the process exits. A panic in another goroutine ends
// the process. A goroutine that blocks on anything outside the bubble (a contended mutex, a socket,
// a channel created outside) stops virtual time forever, so code that starts many runs uses
// subprocesses with a real-time watchdog.
//
// synctest requires a testing.T. It gets an empty one, which go1.26 accepts as long as nobody uses
// it. This is why f runs in a separate goroutine, where even runtime.Goexit is safe. If a later Go
// version rejects an empty T, testing.MainStart with a custom testDeps and one InternalTest
// provides a real one.
func inBubble(f func()) (err error) {
	var bodyErr error
	defer func() {
		if r := recover(); r != nil {
			err = errors.Join(bodyErr, fmt.Errorf("run simulation: %v", r))
		}
	}()
	resetTimers()
	synctest.Test(new(testing.T), func(*testing.T) {
		bodyErr = protect("run simulation", f)
	})
	return bodyErr
}

// isLeakError reports whether err consists of leaked goroutines only.
func isLeakError(err error) bool {
	return err != nil && strings.Contains(err.Error(), "main bubble goroutine has exited but blocked goroutines remain")
}

// protect runs f in a new goroutine and returns an error if f panics or calls runtime.Goexit.
func protect(name string, f func()) (err error) {
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%s: panic: %v\n%s", name, r, debug.Stack())
			} else if !returned {
				err = fmt.Errorf("%s: called runtime.Goexit", name)
			}
		}()
		f()
		returned = true
	}()
	<-done
	return err
}

// lockStep replaces the timeline's loop if clients have their own bubbles. Before true time
// advances to the next event, lockStep advances every client's clock to its reading at that event.
// If a client acts earlier, its action becomes an event too and comes first: the client waits at a
// gate until true time catches up. So no client gets ahead of anything it could have observed.
//
// An action of one client can reach another within minLatency, before any event for it is queued.
// So clients that are reading from a connection run after the others, whose next actions are known
// by then. While several clients are reading, clocks advance by at most minLatency.
func (n *network) lockStep() {
	defer close(n.ended)
	for idleSince := int64(0); ; {
		synctest.Wait()
		if n.isStopped() {
			return
		}
		if n.runPending() {
			idleSince = n.now()
			continue
		}
		n.timeline.mu.Lock()
		next := n.nextDue()
		n.timeline.mu.Unlock()
		hasEvent := next < math.MaxInt64
		if !hasEvent {
			if n.now()-idleSince > int64(coolDown) || !n.anyClientAwake() {
				<-n.neverClosed // nothing can happen any more: the runtime reports the deadlock
			}
			next = n.now() + int64(time.Second)
		}
		limit := n.horizon(next)
		if n.runClients(limit) {
			continue
		}
		n.advance(limit)
		if limit == next && hasEvent {
			idleSince = limit
			n.onAlarm()
		}
	}
}

// runPending runs the calls that other bubbles have queued for each bubble. It reports whether
// there were any.
func (n *network) runPending() (found bool) {
	for _, h := range n.hosts {
		o := h.bubble
		o.mu.Lock()
		hasCalls := len(o.insideCalls) > 0
		o.mu.Unlock()
		if hasCalls && !o.exited {
			found = true
			o.execute(order{from: h.clockAt(n.now())})
		}
		if calls := o.drain(&o.outsideCalls); len(calls) > 0 {
			found = true
			go func() {
				for _, f := range calls {
					f()
				}
			}()
			synctest.Wait()
		}
		if o.exited && o.onExit != nil {
			found = true
			f := o.onExit
			o.onExit = nil
			go f(o.wait())
			synctest.Wait()
		}
	}
	return found
}

// runClients advances each client's clock to its reading at true time limit. It stops early and
// returns true if a client acts before then.
func (n *network) runClients(limit int64) (clientActed bool) {
	for _, isReading := range []bool{false, true} {
		for _, h := range n.hosts {
			reading := h.clockAt(limit)
			if !h.isAwake() || h.bubble.isReading != isReading || h.bubble.lastReading >= reading {
				continue
			}
			h.bubble.execute(order{to: reading})
			if h.bubble.exited || h.bubble.lastReading < reading {
				return true
			}
		}
	}
	return false
}

// horizon returns the true time to which clocks may advance if the next event is due at next. It
// updates which clients are reading.
func (n *network) horizon(next int64) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.hosts {
		h.bubble.isReading = false
	}
	readers := 0
	for _, l := range n.links {
		if l.host.bubble.isReading || !l.host.isAwake() || !slices.ContainsFunc(l.conns, (*conn).awaitsData) {
			continue
		}
		l.host.bubble.isReading = true
		readers++
	}
	if readers > 1 {
		return min(next, n.now()+int64(minLatency))
	}
	return next
}

// awaitsData reports whether a read or a dial is waiting on the connection.
func (c *conn) awaitsData() bool { return (c.reading || !c.dialDone.Load()) && !c.closed }

// anyClientAwake reports whether any client can still act on its own.
func (n *network) anyClientAwake() bool {
	for _, h := range n.hosts {
		if h.isAwake() {
			return true
		}
	}
	return false
}

func (h *host) isAwake() bool { return h.bubble.started && !h.bubble.exited && !h.killed && !h.ended }

// clockAt returns the host's clock reading at true time t.
func (h *host) clockAt(t int64) int64 {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.clocks.monotonic.At(t)
}

// advance moves true time and the clock in the run's bubble to t.
func (tl *timeline) advance(t int64) {
	time.Sleep(time.Duration(t - tl.steppedTime.Load()))
	tl.steppedTime.Store(t)
}

func (tl *timeline) isStopped() bool {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	return tl.closed
}

// waitTurn waits until an instant when no other node can act. A fault that hits several nodes thus
// hits them one after the other, which fixes the order of their recorded events.
func (n *network) waitTurn(target string) {
	n.mu.Lock()
	s, err := n.node(target)
	n.mu.Unlock()
	if err == nil {
		n.sleep(s.slot, n.now())
	}
}

// waitIdle waits until the node has no pending sync and no backlog, unless its disk is stalled. The
// caller must hold the network's mutex, which is released during the wait.
func (n *network) waitIdle(s *server) {
	for s.node != nil && !s.paused && (s.disk == nil || !s.disk.Stalled) && !s.isReady() {
		slot, next := s.slot, n.now()+int64(minSync)
		n.mu.Unlock()
		n.sleep(slot, next)
		n.mu.Lock()
	}
}

// quantum is the period of slots, in nanoseconds. Every spontaneous event happens in a slot, that
// is, at an instant t with t mod quantum == slot. Each direction of a link, each client and the
// harness has its own slot and uses no instant twice. So no two events happen at the same instant,
// and it doesn't matter in which order goroutines run.
const quantum = 4096

// Links use the slots from 0 upward. The other slots start here.
const (
	firstClientSlot  = quantum / 2
	firstServerSlot  = firstClientSlot + 256
	firstReplicaSlot = firstServerSlot + 256
	harnessSlot      = quantum - 1
)

// slot is the set of instants that have the same remainder modulo quantum.
type slot int64

// align returns the slot's first instant at or after t.
func (s slot) align(t int64) int64 { return t + (int64(s)-t)&(quantum-1) }

// event is an action scheduled for an instant.
type event struct {
	at     int64
	action action
}

// action is the effect of an event. fire is called with the network locked and must not block.
type action interface{ onAlarm() }

type actionFunc func()

func (f actionFunc) onAlarm() { f() }

// timeline keeps true time and the queue of future events. The network, nodes and clients get the
// time from now and schedule events with at. A single goroutine runs all events, since a goroutine
// per event would spend most of its time growing its stack.
type timeline struct {
	start      time.Time
	startNanos int64       // start as Unix time in nanoseconds
	netLock    sync.Locker // held while an action runs
	mu         sync.Mutex
	queue      []event // latest event first: most new events are due soon and thus near the end
	timer      *time.Timer
	timerDue   int64         // when timer fires
	closed     bool          // run no more events
	ended      chan struct{} // closed when loop returns

	settleLock chan struct{} // a mutex for settle

	// stepped is set if clients have their own bubbles. lockStep then replaces loop and sets true
	// time, since package time differs between bubbles.
	stepped     bool
	steppedTime atomic.Int64
	neverClosed chan struct{}
}

func newTimeline(stepped bool, netLock sync.Locker) *timeline {
	start := time.Now()
	tl := &timeline{start: start, startNanos: start.UnixNano(), netLock: netLock, timer: time.NewTimer(time.Hour), timerDue: math.MaxInt64, ended: make(chan struct{}), settleLock: make(chan struct{}, 1),
		stepped: stepped, neverClosed: make(chan struct{})}
	tl.timer.Stop()
	if !stepped {
		go tl.loop()
	}
	return tl
}

// now returns true time in nanoseconds since the start of the run. It needs little stack, since
// short-lived goroutines call it very often from deep in their stacks.
func (tl *timeline) now() int64 {
	if tl.stepped {
		return tl.steppedTime.Load()
	}
	return time.Now().UnixNano() - tl.startNanos
}

// Now returns true time since the start of the run.
func (tl *timeline) Now() time.Duration { return time.Duration(tl.now()) }

// at schedules f like schedule. f is called with the network locked and must not block.
func (tl *timeline) at(s slot, t int64, f func()) int64 { return tl.schedule(s, t, actionFunc(f)) }

// schedule schedules an action at the slot's first free instant that is later than now and not
// before t, and returns that instant. An instant is free if no event is scheduled for it.
func (tl *timeline) schedule(s slot, t int64, act action) int64 {
	tl.mu.Lock()
	now := tl.now()
	t = s.align(max(t, now+1))
	i := sort.Search(len(tl.queue), func(i int) bool { return tl.queue[i].at <= t })
	for i < len(tl.queue) && tl.queue[i].at == t {
		for t += quantum; i > 0 && tl.queue[i-1].at <= t; i-- {
		}
	}
	tl.queue = slices.Insert(tl.queue, i, event{t, act})
	tl.arm(now)
	tl.mu.Unlock()
	return t
}

// sleep waits until the slot's first free instant that is not before t.
func (tl *timeline) sleep(s slot, t int64) {
	done := make(chan struct{})
	tl.at(s, t, func() { close(done) })
	<-done
}

// settle waits until all other goroutines have blocked at this instant, so that a fault triggered
// at a client's point finds the client's other goroutines blocked.
func (tl *timeline) settle() {
	tl.settleLock <- struct{}{} // synctest.Wait allows only one caller at a time
	synctest.Wait()
	<-tl.settleLock
}

// stop ends the timeline and waits until its loop returns, because virtual time stops as soon as
// the run's main function returns.
func (tl *timeline) stop() {
	tl.mu.Lock()
	tl.closed = true
	if !tl.stepped {
		tl.timer.Reset(0)
	}
	tl.mu.Unlock()
	<-tl.ended
}

func (tl *timeline) loop() {
	defer close(tl.ended)
	for {
		<-tl.timer.C
		tl.mu.Lock()
		if tl.closed {
			tl.mu.Unlock()
			return
		}
		tl.timerDue = math.MaxInt64
		for tl.nextDue() <= tl.now() {
			tl.mu.Unlock()
			tl.onAlarm()
			tl.mu.Lock()
		}
		tl.arm(tl.now())
		tl.mu.Unlock()
	}
}

// onAlarm runs the earliest event.
func (tl *timeline) onAlarm() {
	tl.netLock.Lock()
	defer tl.netLock.Unlock()
	tl.mu.Lock()
	last := len(tl.queue) - 1
	act := tl.queue[last].action
	tl.queue[last] = event{}
	tl.queue = tl.queue[:last]
	tl.mu.Unlock()
	act.onAlarm()
}

// arm sets the timer to the earliest event, unless the timer already fires by then.
func (tl *timeline) arm(now int64) {
	if due := tl.nextDue(); !tl.stepped && !tl.closed && due < tl.timerDue {
		tl.timerDue = due
		tl.timer.Reset(time.Duration(tl.timerDue - now))
	}
}

// nextDue returns the time of the earliest event, or math.MaxInt64 if the queue is empty.
func (tl *timeline) nextDue() int64 {
	if n := len(tl.queue); n > 0 {
		return tl.queue[n-1].at
	}
	return math.MaxInt64
}
