package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/real/keylife"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/proxy"
	"lockpick/harness/resp"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Network holds the links of one run and records changes to its nodes' keys. Methods that take a
// node accept the resource too. Once the network is open, all methods may be called at any time.
type Network struct {
	Addr           func(node string) string // returns a node's own address, which bypasses links
	IsDown         func(node string) bool   // reports whether a node is not running
	IsUnresponsive func(node string) bool   // reports whether a node is running but can't answer, regardless of links
	Go             func(func())             // runs a function in a goroutine that the run waits for
	Mesh           *proxy.Mesh              // Host and Ports must be set before Open
	// Store is the nodes' server software. It must be set before Open; nil means Redis.
	Store *proc.Store

	ctx          context.Context // canceled when the run ends
	keyRecorder  *keylife.Recorder
	addrs        map[string]clientAddresses // addresses used by each client; set by Open
	refusedLinks map[string]func() error    // links that refuse connections; the functions free their addresses
}

// NewNetwork returns a network without links. seed determines which messages random faults affect.
// record receives the events of links and keys, and now returns the true time for them.
func NewNetwork(ctx context.Context, seed uint64, now func() time.Duration, record func(history.Event)) *Network {
	return &Network{
		ctx: ctx, Mesh: proxy.NewMesh(seed, now, record),
		keyRecorder: keylife.New(keylife.Config{Clock: proc.TrueClock, FromHarness: proc.HasRecentlyAsked, Record: record}),
	}
}

// clientAddresses holds the addresses at which a client reaches the nodes and the resource.
type clientAddresses struct {
	Nodes    []lock.Node
	Resource lock.Node
}

// Addresses returns a client's addresses. ok is false if there is no such client.
func (n *Network) Addresses(client string) (a clientAddresses, ok bool) {
	a, ok = n.addrs[client]
	return a, ok
}

var _ nemesis.Tapper = (*Network)(nil)

// Open opens links from each client to all nodes and the resource. If a client can't reach a node,
// Open reserves an address that refuses connections.
func (n *Network) Open(nodes []string, clients []scenario.Client) error {
	n.addrs, n.refusedLinks = map[string]clientAddresses{}, map[string]func() error{}
	n.Mesh.Witness = n.witness
	for _, client := range clients {
		a := clientAddresses{}
		for _, node := range nodes {
			addr, err := n.openLink(client, node)
			if err != nil {
				return err
			}
			a.Nodes = append(a.Nodes, lock.Node{Name: node, Addr: addr})
		}
		l, err := n.Mesh.Open(client.Name, scenario.ResourceName, n.Addr(scenario.ResourceName))
		if err != nil {
			return err
		}
		a.Resource = lock.Node{Name: scenario.ResourceName, Addr: l.Addr()}
		n.addrs[client.Name] = a
	}
	return nil
}

func (n *Network) openLink(client scenario.Client, node string) (addr string, err error) {
	if client.Reach != nil && !slices.Contains(client.Reach, node) {
		addr, release, err := n.Mesh.Refuse()
		if err == nil {
			n.refusedLinks[nemesis.LinkName(client.Name, node)] = release
		}
		return addr, err
	}
	open := n.Mesh.Open
	if n.Store != nil {
		open = n.Mesh.OpenOpaque
	}
	l, err := open(client.Name, node, n.Addr(node))
	if err != nil {
		return "", err
	}
	return l.Addr(), nil
}

// witness returns an observer for a connection to a node, or nil.
func (n *Network) witness(name, node, from string) proxy.Witness {
	if s := n.keyRecorder.Sender(name, node, from); s != nil {
		return s
	}
	return nil
}

// Close closes the links and frees their addresses.
func (n *Network) Close() error {
	n.keyRecorder.Close() // if a node's setting can't be restored, the node itself has failed, which is reported elsewhere
	errs := []error{n.Mesh.Close()}
	for _, release := range n.refusedLinks {
		errs = append(errs, release())
	}
	return errors.Join(errs...)
}

// Begin makes origin, an instant of proc.TrueClock, true time zero. It returns the correct wall
// clock time at that instant.
func (n *Network) Begin(origin time.Duration) (epoch int64, err error) {
	n.keyRecorder.Start(origin)
	return n.keyRecorder.Epoch(), nil
}

// WatchKeys makes nodes report changes to their keys. nodes maps their names to addresses.
func (n *Network) WatchKeys(nodes map[string]string) error { return n.keyRecorder.Watch(nodes) }

// NodeReturned records that a node has restarted, or that the server at a new address has taken
// over from it. See keylife.Recorder.
func (n *Network) NodeReturned(node, addr, why string) { n.keyRecorder.Reattach(node, addr, why) }

// NodeEnding records that a node is about to exit. If it does not exit after all, the caller must
// call cancel.
func (n *Network) NodeEnding(node string, clean bool) (cancel func()) {
	n.keyRecorder.ExpectEnd(node, clean)
	return func() { n.keyRecorder.CancelEnd(node) }
}

// StopWatchingKeys stops the nodes' key reports, because the nodes are about to exit.
func (n *Network) StopWatchingKeys() { n.keyRecorder.Close() }

// HoldTraffic holds all data to and from a node until release is called.
func (n *Network) HoldTraffic(node string) (release func() error, err error) {
	openGate := n.Mesh.Gate(node)
	return func() error { openGate(); return nil }, nil
}

// Redirect makes a node's links lead to another server.
func (n *Network) Redirect(node, upstream string) error {
	n.Mesh.Redirect(node, upstream)
	return nil
}

// OpenReplication opens the link over which a replica follows the node at addr, and returns the
// link's address.
func (n *Network) OpenReplication(node, addr string) (link string, err error) {
	l, err := n.Mesh.OpenReplication(node, addr)
	if err != nil {
		return "", err
	}
	return l.Addr(), nil
}

// Tap watches a link for a message and calls hit when it arrives.
func (n *Network) Tap(m nemesis.OnMessage, hit func(nemesis.HeldMessage)) error {
	l, err := n.link("tap", m.Link)
	if err != nil {
		return err
	}
	return l.Tap(m, func(held nemesis.HeldMessage) { n.Go(func() { hit(held) }) })
}

func (n *Network) link(verb, name string) (*proxy.Link, error) {
	if l := n.Mesh.Link(name); l != nil {
		return l, nil
	}
	if _, ok := n.refusedLinks[name]; ok {
		return nil, fmt.Errorf("%s %s: there is no link, because the client can't reach that node", verb, name)
	}
	return nil, fmt.Errorf("%s %s: there is no such link", verb, name)
}

// timedReply is a server's reply, with the true times on the server's machine before the request
// and after the reply.
type timedReply struct {
	Value resp.Value    `json:"value"`
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
}

// AskTimed sends a command to a server like proc.Ask, bypassing links, and returns the reply with
// its times.
func AskTimed(ctx context.Context, addr string, args ...string) (r timedReply, err error) {
	if len(args) == 0 {
		return r, fmt.Errorf("ask %s: no command", addr)
	}
	r.From = proc.TrueClock()
	r.Value, err = proc.Ask(ctx, addr, args...)
	r.To = proc.TrueClock()
	return r, err
}

// AskTimed calls the function AskTimed in this process.
func (*Network) AskTimed(ctx context.Context, addr string, args ...string) (timedReply, error) {
	return AskTimed(ctx, addr, args...)
}

// serverState is the part of a server's state that links can't observe.
type serverState struct {
	Down         bool `json:"down"` // whether the server is not running
	Unresponsive bool `json:"mute"` // whether the server is running but can't answer
}

// clockID identifies the clock read by proc.TrueClock, using the machine's boot ID and the time
// namespace. It returns "" if the clock can't be identified.
func clockID() string {
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	timeNamespace, _ := os.Readlink("/proc/self/ns/time") // Linux before 5.6 has just one
	return strings.TrimSpace(string(bootID)) + timeNamespace
}

var _ nemesis.Cutter = (*Network)(nil)

const (
	cutWait     = 20 * time.Millisecond // a link without an answer for this long is cut; an answer takes about 0.1 ms
	mendTimeout = 2 * time.Second       // for an answer over a mended link

	slowPingTimeout = time.Second // for a PING that is expected to be slow
)

// pingCommand returns the command for testing whether a link passes traffic.
func pingCommand(n *Network, l *proxy.Link) string {
	if leadsToStore(n, l) {
		return "GET " + n.Store.ProbePath
	}
	return "PING"
}

// leadsToStore reports whether a link leads to a member of n.Store.
func leadsToStore(n *Network, l *proxy.Link) bool {
	return n.Store != nil && nodeOf(l) != scenario.ResourceName
}

// Cut cuts a link and confirms the cut with a PING.
func (n *Network) Cut(name, mode, way string) (string, error) {
	l, err := n.link("cut", name)
	if err != nil {
		return "", err
	}
	pingsBefore, timeout := -1, cutWait
	if way == nemesis.Reply && !n.IsUnresponsive(nodeOf(l)) && !leadsToStore(n, l) {
		pingsBefore = countPings(n, name)
	}
	if l.IsDisturbed() {
		timeout = slowPingTimeout // the link may be slow too
	}
	if err := l.Cut(mode, way); err != nil {
		return "", err
	}
	err = n.ping(l, timeout)
	command := pingCommand(n, l)
	switch {
	case err == nil:
		return "", fmt.Errorf("cut %s: %s is still answered", name, command)
	case mode == nemesis.CutReset:
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return "", fmt.Errorf("cut %s: %s was not reset: %w", name, command, err)
		}
		return command + " was reset", nil
	case mode == nemesis.CutRefuse:
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return "", fmt.Errorf("cut %s: %s was not refused: %w", name, command, err)
		}
		return command + " was refused", nil
	case way == nemesis.Reply && pingsBefore >= 0:
		if !awaitPing(n, name, pingsBefore) {
			return "", fmt.Errorf("cut %s: PING did not reach the node, but only replies are cut", name)
		}
		return fmt.Sprintf("PING got no answer, though the node gave one: %v", err), nil
	}
	return fmt.Sprintf("%s got no answer: %v", command, err), nil
}

// awaitPing waits until a link's node has answered more PINGs than oldCount. On a busy machine, a
// PING may still be on its way when its sender gives up.
func awaitPing(n *Network, name string, oldCount int) bool {
	for end := time.Now().Add(mendTimeout); countPings(n, name) <= oldCount; time.Sleep(time.Millisecond) {
		if time.Now().After(end) || n.ctx.Err() != nil {
			return false
		}
	}
	return true
}

// countPings returns how many PINGs a link's node has answered, or -1 if the node is down.
func countPings(n *Network, name string) int {
	_, node, _ := nemesis.SplitLink(name)
	if n.IsDown(node) {
		return -1
	}
	v, err := proc.Ask(n.ctx, n.Addr(node), "INFO", "commandstats")
	if err != nil {
		return -1
	}
	_, stat, _ := strings.Cut(v.Str, "cmdstat_ping:calls=")
	count := 0
	fmt.Sscanf(stat, "%d", &count) // no entry means none
	return count
}

// Mend mends a link. If the node is up, Mend confirms that it answers PING.
func (n *Network) Mend(name string) (string, error) {
	l, err := n.link("mend", name)
	if err != nil {
		return "", err
	}
	if err := l.Mend(); err != nil {
		return "", err
	}
	back, err := n.checkAnswers(l)
	if err != nil {
		return "", fmt.Errorf("restore %s: %w", name, err)
	}
	return back, nil
}

// checkAnswers checks that PING is answered over a link, unless the node can't answer or another
// fault affects the link.
func (n *Network) checkAnswers(l *proxy.Link) (string, error) {
	if l.IsDisturbed() {
		return "another fault affects the link", nil
	}
	if n.IsUnresponsive(nodeOf(l)) {
		return "the node is stopped or waiting for its disk, and does not answer", nil
	}
	err := n.ping(l, mendTimeout)
	switch {
	case err == nil:
		return pingCommand(n, l) + " was answered", nil
	case l.IsDisturbed():
		return "another fault affects the link", nil
	case n.IsUnresponsive(nodeOf(l)):
		return "the node was stopped or is waiting for its disk, and does not answer", nil
	case errors.Is(err, context.DeadlineExceeded) && leadsToStore(n, l) && !n.IsDown(nodeOf(l)):
		return "the node is running but has not joined a majority", nil
	case errors.Is(err, context.DeadlineExceeded) && !n.IsDown(nodeOf(l)): // the address of a node that is down may swallow packets
		return "", err
	}
	return fmt.Sprintf("the node is down: %v", err), nil
}

func nodeOf(l *proxy.Link) string {
	_, node, _ := nemesis.SplitLink(l.Name())
	return node
}

func (n *Network) ping(l *proxy.Link, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(n.ctx, timeout)
	defer cancel()
	var err error
	if leadsToStore(n, l) {
		err = n.Store.Ask(ctx, l.Addr())
	} else {
		_, err = proc.Ask(ctx, l.Addr(), "PING")
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("none within %v: %w", timeout, ctx.Err())
	}
	return err
}

// portRange is the range of local ports from which a link connects to its node. On the node's
// machine, these ports identify the link's packets.
type portRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// Ports returns a link's local ports.
func (n *Network) Ports(name string) (portRange, error) {
	l, err := n.link("find the ports of", name)
	if err != nil {
		return portRange{}, err
	}
	first, last := l.Ports()
	if first == 0 {
		return portRange{}, fmt.Errorf("find the ports of %s: links dial from any port", name)
	}
	return portRange{first, last}, nil
}

// CheckUnanswered checks that PING is not answered over a link whose packets are dropped below TCP.
func (n *Network) CheckUnanswered(name string) (readBack string, err error) {
	l, err := n.link("check the cut of", name)
	if err != nil {
		return "", err
	}
	if err = n.ping(l, cutWait); err == nil {
		return "", fmt.Errorf("cut %s: %s is still answered", name, pingCommand(n, l))
	}
	return fmt.Sprintf("%s got no answer: %v", pingCommand(n, l), err), nil
}

// CheckAnswered checks that PING is answered once a link's packets are no longer dropped, unless
// the node can't answer.
func (n *Network) CheckAnswered(name string) (readBack string, err error) {
	l, err := n.link("check", name)
	if err != nil {
		return "", err
	}
	if readBack, err = n.checkAnswers(l); err != nil {
		return "", fmt.Errorf("restore %s: %w", name, err)
	}
	return readBack, nil
}

var _ nemesis.Shaper = (*Network)(nil)

// Shape changes a link's traffic. If a single PING can show the change, Shape measures how long a
// PING takes.
func (n *Network) Shape(name string, t nemesis.Traffic) (string, error) {
	l, err := n.link("shape", name)
	if err != nil {
		return "", err
	}
	disturbed := l.IsDisturbed()
	l.Shape(t)
	if !t.HitsAll() || t.Lose || disturbed {
		return t.String(), nil
	}
	ctx, cancel := context.WithTimeout(n.ctx, slowPingTimeout)
	defer cancel()
	text, command := pingPayload(t), "PING"
	start := proc.TrueClock()
	if leadsToStore(n, l) {
		text, command = "", pingCommand(n, l)
		err = n.Store.Ask(ctx, l.Addr())
	} else {
		_, err = proc.Ask(ctx, l.Addr(), "PING", text)
	}
	elapsed := proc.TrueClock() - start
	minTime := minRoundTrip(t, len(text))
	switch {
	case ctx.Err() != nil && n.ctx.Err() == nil:
		return fmt.Sprintf("%v; %s got no answer within %v", t, command, slowPingTimeout), nil
	case err != nil:
		return fmt.Sprintf("%v; the node is down: %v", t, err), nil
	case elapsed < minTime:
		return "", errors.Join(fmt.Errorf("shape %s: %s was answered after %v, earlier than the minimum of %v", name, command, elapsed, minTime), undoShape(n, name, t))
	}
	return fmt.Sprintf("%v; %s of %d bytes was answered after %v", t, command, len(text), elapsed.Round(10*time.Microsecond)), nil
}

func undoShape(n *Network, name string, t nemesis.Traffic) error {
	if _, err := n.Unshape(name, t); !errors.Is(err, nemesis.ErrIdle) {
		return err
	}
	return nil
}

// pingPayload returns a string for PING to echo. With limited bandwidth, it is long enough to take
// measurable time.
func pingPayload(t nemesis.Traffic) string {
	const pingsPerSecond = 50 // each takes 20 ms; 1 MiB is enough at any bandwidth
	return strings.Repeat("x", max(1, min(t.Bandwidth/pingsPerSecond, 1<<20)))
}

// minRoundTrip returns the minimum time for PING and its answer.
func minRoundTrip(t nemesis.Traffic, size int) time.Duration {
	directions := 1
	if t.Way == "" {
		directions = 2
	}
	return time.Duration(directions) * (t.DelayMin + t.TransmitTime(size))
}

// Unshape undoes a Shape, reports how many messages it affected, and checks that PING is answered.
func (n *Network) Unshape(name string, t nemesis.Traffic) (string, error) {
	l, err := n.link("remove shape from", name)
	if err != nil {
		return "", err
	}
	impact, err := l.Unshape(t)
	if err != nil {
		return "", err
	}
	back, err := n.checkAnswers(l)
	if err != nil {
		return "", fmt.Errorf("remove shape from %s: %w", name, err)
	}
	return impact.ReadBack(back)
}
