//go:build linux

package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"lockpick/docker/engine"
	"lockpick/harness/real"
	"lockpick/harness/real/packets"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Host parts of the addresses on a testbed's network.
const (
	gatewayHost   = 1 // the bridge
	linksHost     = 2
	resourceHost  = 10
	anyHost       = 0 // means the first free host from firstNode on
	firstNode     = 11
	firstReplica  = 51
	firstSentinel = 91
	firstClient   = 101
	lastHost      = 254 // last client
)

type privateNet struct {
	name   string
	subnet netip.Prefix
}

func (n privateNet) addr(host int) netip.Addr {
	a := n.subnet.Addr().As4()
	a[3] = byte(host)
	return netip.AddrFrom4(a)
}

// makeNetwork creates a testbed's network in a free subnet of 10.213.0.0/16. The subnet it tries first
// depends on the PID, so that lockpick processes started at the same time don't collide.
func makeNetwork(ctx context.Context, e *engine.Engine, name string, labels map[string]string) (privateNet, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout) // as in makeContainer
	defer cancel()
	for i := range 256 {
		a := netip.AddrFrom4([4]byte{10, 213, byte(os.Getpid() + i), 0})
		n := privateNet{name: name, subnet: netip.PrefixFrom(a, 24)}
		if subnetInUse(n.subnet) {
			continue
		}
		_, err := engine.MakeNetwork(ctx, e, name, n.subnet, n.addr(gatewayHost), labels)
		if errors.Is(err, engine.ErrOverlaps) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("create network %s: %w", name, err)
		}
		return n, nil
	}
	return privateNet{}, errors.New("create a network: every subnet of 10.213.0.0/16 is in use; see docker network ls")
}

// subnetInUse reports whether this machine has an address in the subnet. Asking the engine is not enough,
// because it knows only its own networks.
func subnetInUse(subnet netip.Prefix) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false // the engine will report a conflict
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Overlaps(subnet) {
			return true
		}
	}
	return false
}

// assignHosts assigns each client a host on the network for the lifetime of the testbed. It returns false
// if there are not enough hosts.
func (s *testbed) assignHosts(clients []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range clients {
		if s.clientHosts[name] == 0 {
			s.clientHosts[name] = firstClient + len(s.clientHosts)
		}
	}
	return firstClient+len(s.clientHosts)-1 <= lastHost
}

// containers lists the testbed's containers, except sidecars.
func (s *testbed) containers() (all []*container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.linksContainer != nil {
		all = append(all, s.linksContainer)
	}
	for _, n := range s.nodes {
		all = append(all, n.container)
	}
	all = slices.AppendSeq(all, maps.Values(s.clientContainers))
	return slices.AppendSeq(all, maps.Values(s.addresses))
}

// close removes the testbed's containers and network.
func (s *testbed) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	err := engine.RemoveAllRetrying(ctx, s.engine, runLabel+"="+s.labels[runLabel])
	for _, b := range s.containers() {
		b.detach()
	}
	return errors.Join(err, s.engine.Close())
}

// stdio is the stdin, stdout and stderr of a container's program.
type stdio struct {
	in  io.WriteCloser
	out *io.PipeReader

	mu     sync.Mutex
	stderr bytes.Buffer // the last maxStderr bytes
}

// startAttached starts the program and attaches to it, so that none of its output is missed. Canceling
// ctx does not detach from the program, because its last output would be lost.
func (b *container) startAttached(ctx context.Context) error {
	b.detach()
	b.mu.Lock()
	err := b.awaitPreviousEnd() // otherwise, Attach would attach to the previous run
	b.mu.Unlock()
	if err != nil {
		return err
	}
	out, stdout := io.Pipe()
	t := &stdio{out: out}
	in, copyOut, err := b.engine.Attach(context.WithoutCancel(ctx), b.id, stdout, t)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", b.name, err)
	}
	t.in, b.stdio = in, t
	go func() { stdout.CloseWithError(copyOut()) }()
	return b.start(ctx)
}

// maxStderr limits how much of a program's stderr is kept, in bytes.
const maxStderr = 1000

// Write appends b to stderr and discards all but the last maxStderr bytes.
func (t *stdio) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stderr.Write(b)
	t.stderr.Next(max(0, t.stderr.Len()-maxStderr))
	return len(b), nil
}

// StderrTail returns the end of what the program wrote to stderr.
func (b *container) StderrTail() string {
	b.stdio.mu.Lock()
	defer b.stdio.mu.Unlock()
	return strings.TrimSpace(b.stdio.stderr.String())
}

// detach closes the streams to the programs of the container and its sidecar, if there are any.
func (b *container) detach() {
	if b.sidecar != nil {
		b.sidecar.detach()
	}
	if b.stdio != nil {
		b.stdio.in.Close()
		b.stdio.out.Close()
	}
}

var _ nemesis.Unplugger = (*cluster)(nil)

// unpluggedWait is how long to wait for an unplugged node's answer. A reachable node answers in about a
// millisecond.
const unpluggedWait = 20 * time.Millisecond

func (c *cluster) Unplug(node string) (string, error) {
	n := c.nodeByName(node)
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	switch {
	case !n.Running():
		return "", fmt.Errorf("unplug %s: it is not running", node)
	case n.unplugged.Load():
		return "", fmt.Errorf("unplug %s: it is already unplugged", node)
	}
	n.modified.Store(true)
	n.unplugged.Store(true)
	n.updateLinks(c.Ctx)
	if err := n.engine.API.NetworkDisconnect(c.Ctx, c.testbed.net.name, n.address.id, false); err != nil {
		return "", fmt.Errorf("unplug %s: %w", node, err)
	}
	ctx, cancel := context.WithTimeout(c.Ctx, unpluggedWait)
	defer cancel()
	_, err := n.Ask(ctx, n.HostPort, "PING")
	switch {
	case err == nil:
		return "", fmt.Errorf("unplug %s: PING is still answered", node)
	case errors.Is(err, real.ErrAgentGone) || c.Ctx.Err() != nil:
		return "", fmt.Errorf("unplug %s: %w", node, err)
	}
	return fmt.Sprintf("container %.12s, whose network it shares, is disconnected from the run's network; PING past the links got no answer within %v", n.address.id, unpluggedWait), nil
}

// Plug reconnects a node to the run's network at the same address.
func (c *cluster) Plug(node string) (string, error) {
	n := c.nodeByName(node)
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	if err := n.engine.Connect(c.Ctx, c.testbed.net.name, n.address.id, netip.MustParseAddrPort(n.HostPort).Addr()); err != nil {
		return "", fmt.Errorf("plug in %s: %w", node, err)
	}
	n.unplugged.Store(false)
	back, err := n.awaitAnswer(c.Ctx)
	n.updateLinks(c.Ctx)
	if err != nil {
		return "", fmt.Errorf("plug in %s: %w", node, err)
	}
	return back, nil
}

// awaitAnswer waits until the node answers, unless it cannot.
func (n *node) awaitAnswer(ctx context.Context) (readBack string, err error) {
	began := time.Now()
	limit, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		switch {
		case !n.Running():
			return "the node has exited", nil
		case n.Paused():
			return "the node is paused and does not answer", nil
		case n.unplugged.Load():
			return "the node is unplugged and does not answer", nil
		}
		_, err := n.Hello(limit)
		if err == nil {
			return fmt.Sprintf("PING past the links was answered after %v", time.Since(began).Round(time.Millisecond)), nil
		}
		select {
		case <-limit.Done():
			return "", fmt.Errorf("PING past the links was not answered within %v: %w", readyTimeout, err)
		case <-n.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// servePackets serves requests from in to drop packets in this process's network namespace.
func servePackets(in io.Reader, out io.Writer) error {
	f, err := packets.Open()
	if err != nil {
		return err
	}
	s := real.CallServer{Targets: func() []any { return []any{f} }}
	return errors.Join(s.Serve(in, out), f.Close())
}

// firstPort is the first local port that links connect from in a run with packet filters. There, a
// packet's port identifies its link.
const firstPort = 10000

// packetFilter is a sidecar that drops a node's packets during a run.
type packetFilter struct {
	*container
	node *node

	mu     sync.Mutex
	caller *real.Caller
	rules  map[string][]packets.Rule // active rules, by link
}

// filterCapability is the capability required to install packet rules.
const filterCapability = "NET_ADMIN"

func makeFilter(ctx context.Context, n *node, capability string) (*packetFilter, error) {
	b, err := n.testbed.makeContainer(ctx, n.name+"-packets", 0, engine.ContainerSpec{
		Command: n.testbed.agentCommand(packetsAgent), Attached: true, NetworkOf: n.address.id, Capability: capability,
	})
	if err != nil {
		return nil, err
	}
	f := &packetFilter{container: b, node: n, rules: map[string][]packets.Rule{}}
	if err := f.begin(ctx); err != nil {
		return nil, errors.Join(err, f.remove(ctx))
	}
	return f, nil
}

// begin starts the filter and returns when it can drop packets.
func (f *packetFilter) begin(ctx context.Context) error {
	if err := f.startAttached(ctx); err != nil {
		return err
	}
	f.caller = real.NewCaller(f.stdio.in, f.stdio.out, nil)
	limit, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := f.caller.Call(limit, "Ready", nil); err != nil {
		f.Kill(ctx) // so that stderr is complete
		return fmt.Errorf("drop packets of %s: %w: %s", f.node.name, err, f.StderrTail())
	}
	return nil
}

// call makes a call to the filter. This takes milliseconds unless something other than lockpick has
// stopped the filter.
func (f *packetFilter) call(ctx context.Context, call string, r packets.Rule, results ...any) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return f.caller.Call(ctx, call, real.CallArgs{r}, results...)
}

func (f *packetFilter) cut(ctx context.Context, link string, rules []packets.Rule) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rules[link] != nil {
		return errors.New("its packets are already dropped")
	}
	for _, r := range rules {
		if err := f.call(ctx, "Drop", r); err != nil {
			return err
		}
		f.rules[link] = append(f.rules[link], r)
	}
	return nil
}

// count makes a call for each of a link's rules and returns the total number of packets that the calls
// report.
func (f *packetFilter) count(ctx context.Context, call, link string) (sum int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules[link] {
		var lost int
		if err := f.call(ctx, call, r, &lost); err != nil {
			return 0, err
		}
		sum += lost
	}
	if call == "Pass" {
		delete(f.rules, link)
	}
	return sum, nil
}

// filterCloseTimeout limits how long a filter may take to remove its rules.
const filterCloseTimeout = 5 * time.Second

// close removes the filter. It first makes the filter remove its rules, because they would remain in the
// node's network namespace.
func (f *packetFilter) close(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Running() {
		f.expectEnd(true)
		f.detach()
		select {
		case <-f.Done():
		case <-time.After(filterCloseTimeout):
		case <-ctx.Done():
		}
	}
	if _, err := f.Kill(ctx); err == nil || f.End() != nil {
		f.node.modified.Store(true)
	}
	return f.remove(ctx)
}

// dropsPackets reports whether the plan drops packets on a link to a node or to the resource.
func dropsPackets(s scenario.Scenario, node string) bool {
	return slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool {
		return st.Fault.Mode == nemesis.CutPackets && slices.ContainsFunc(st.Fault.Targets, func(target string) bool {
			_, end, _ := nemesis.SplitLink(target)
			switch {
			case target == node || end == node:
				return true
			case node == scenario.ResourceName:
				return end == "resource"
			}
			return slices.Contains(s.ClientNames(), target)
		})
	})
}

// makeFilters creates a filter for each node whose packets the plan drops. It must be called before the
// run, because it takes tenths of a second and faults must start on time.
func (fs *packetFilters) makeFilters(s scenario.Scenario, server func(name string) *node) error {
	var mu sync.Mutex
	return engine.Parallel(append(s.NodeNames(), scenario.ResourceName), func(name string) error {
		if !dropsPackets(s, name) {
			return nil
		}
		f, err := makeFilter(fs.ctx, server(name), filterCapability)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		fs.byNode[name] = f
		return nil
	})
}

func (fs *packetFilters) closeFilters(ctx context.Context) error {
	var errs []error
	for _, f := range fs.byNode {
		errs = append(errs, f.close(ctx))
	}
	return errors.Join(errs...)
}

// CutPackets starts dropping a link's packets in the node's network namespace.
func (fs *packetFilters) CutPackets(link, way string) (string, error) {
	f, err := fs.filterOf(link)
	if err != nil {
		return "", err
	}
	ports, err := fs.testbed.remoteNetwork.Ports(link)
	if err != nil {
		return "", err
	}
	var rules []packets.Rule
	for _, w := range []string{nemesis.Request, nemesis.Reply} {
		if way == "" || way == w {
			rules = append(rules, packets.Rule{Peer: fs.testbed.net.addr(linksHost), First: uint16(ports.First), Last: uint16(ports.Last), Way: w})
		}
	}
	if err := f.cut(fs.ctx, link, rules); err != nil {
		return "", fmt.Errorf("cut %s: %w", link, err)
	}
	if !f.node.Running() {
		return "the node is down", nil
	}
	back, err := fs.testbed.remoteNetwork.CheckUnanswered(link)
	if err != nil {
		return "", err
	}
	lost, err := f.count(fs.ctx, "Lost", link)
	if err != nil {
		return "", fmt.Errorf("cut %s: %w", link, err)
	}
	if lost == 0 && f.node.Running() {
		return "", fmt.Errorf("cut %s: PING got no answer, but no packet was dropped; another fault affects the link", link)
	}
	return fmt.Sprintf("%s; %d packets were dropped", back, lost), nil
}

// MendPackets stops dropping a link's packets.
func (fs *packetFilters) MendPackets(link string) (string, error) {
	f, err := fs.filterOf(link)
	if err != nil {
		return "", err
	}
	lost, err := f.count(fs.ctx, "Pass", link)
	if err != nil {
		return "", fmt.Errorf("restore %s: %w", link, err)
	}
	back, err := fs.testbed.remoteNetwork.CheckAnswered(link)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d packets were dropped; %s", lost, back), nil
}

func (fs *packetFilters) filterOf(link string) (*packetFilter, error) {
	_, node, _ := nemesis.SplitLink(link)
	if f := fs.byNode[strings.Replace(node, "resource", scenario.ResourceName, 1)]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("drop packets of %s: the plan does not drop packets of that node", link)
}

type packetFilters struct {
	testbed *testbed
	ctx     context.Context // canceled when the run ends
	byNode  map[string]*packetFilter
}

var _ nemesis.PacketCutter = (*packetFilters)(nil)
