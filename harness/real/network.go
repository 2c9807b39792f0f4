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

// Network is the links of one run, and the lives of its nodes' keys. Its functions are
// called with the name of a node or of the resource, at any time once it is open.
type Network struct {
	Addr func(node string) string // where it listens, past the links
	Down func(node string) bool   // it doesn't run
	Mute func(node string) bool   // it runs and can't answer, whatever the links do
	Go   func(func())             // runs code of the engine
	Mesh *proxy.Mesh              // host and ports are set before Open
	// Store is what the nodes run, set before Open; nil: Redis.
	Store *proc.Store

	ctx     context.Context // ends with the run
	lives   *keylife.Lives
	addrs   map[string]addresses    // of each client; filled by Open
	refused map[string]func() error // links that are none, and what frees their addresses
}

// NewNetwork returns a network without links. What is drawn for messages depends on the seed;
// record takes the facts of links and lives, whose true time is by now.
func NewNetwork(ctx context.Context, seed uint64, now func() time.Duration, record func(history.Event)) *Network {
	return &Network{
		ctx: ctx, Mesh: proxy.NewMesh(seed, now, record),
		lives: keylife.New(keylife.Config{Clock: proc.TrueClock, Ours: proc.Asked, Record: record}),
	}
}

// addresses is where one client finds everybody.
type addresses struct {
	Nodes    []lock.Node
	Resource lock.Node
}

// Addresses are a client's; ok is false where there is no such client.
func (n *Network) Addresses(client string) (a addresses, ok bool) {
	a, ok = n.addrs[client]
	return a, ok
}

var _ nemesis.Tapper = (*Network)(nil)

// Open makes the links of every client to all nodes and the resource, and an address
// that refuses for each node that it can't reach.
func (n *Network) Open(nodes []string, clients []scenario.Client) error {
	n.addrs, n.refused = map[string]addresses{}, map[string]func() error{}
	n.Mesh.Witness = n.witness
	for _, client := range clients {
		a := addresses{}
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
			n.refused[nemesis.LinkName(client.Name, node)] = release
		}
		return addr, err
	}
	open := n.Mesh.Open
	if n.Store != nil {
		open = n.Mesh.OpenUnread
	}
	l, err := open(client.Name, node, n.Addr(node))
	if err != nil {
		return "", err
	}
	return l.Addr(), nil
}

// witness is whoever hears of what passes a connection to a node.
func (n *Network) witness(name, node, from string) proxy.Witness {
	if s := n.lives.Sender(name, node, from); s != nil {
		return s
	}
	return nil
}

// Close ends the links and frees their addresses.
func (n *Network) Close() error {
	n.lives.Close() // a node that can't be left as it was is in a worse state, which somebody else says
	errs := []error{n.Mesh.Close()}
	for _, release := range n.refused {
		errs = append(errs, release())
	}
	return errors.Join(errs...)
}

// Begin makes an instant of proc.TrueClock true time zero, and returns what a right wall
// clock showed then.
func (n *Network) Begin(origin time.Duration) (epoch int64, err error) {
	n.lives.Start(origin)
	return n.lives.Epoch(), nil
}

// LetTell lets the nodes tell of their keys, which are given by their addresses.
func (n *Network) LetTell(nodes map[string]string) error { return n.lives.Watch(nodes) }

// Again takes in that a node is back, or that the server at another address has taken over
// from it, see keylife.Lives.
func (n *Network) Again(node, addr, why string) { n.lives.Again(node, addr, why) }

// Ends takes in that a node is about to end. It does not where goesOn is called.
func (n *Network) Ends(node string, inOrder bool) (goesOn func()) {
	n.lives.Ends(node, inOrder)
	return func() { n.lives.Lives(node) }
}

// Leave lets the nodes tell no more: they are about to end.
func (n *Network) Leave() { n.lives.Close() }

// Gate keeps all data from and to a node until open is called.
func (n *Network) Gate(node string) (open func() error, err error) {
	end := n.Mesh.Gate(node)
	return func() error { end(); return nil }, nil
}

// Turn lets a node's links lead to another server.
func (n *Network) Turn(node, upstream string) error {
	n.Mesh.Turn(node, upstream)
	return nil
}

// OpenReplication makes the link by which a replica follows a node that listens at addr,
// and returns its address.
func (n *Network) OpenReplication(node, addr string) (link string, err error) {
	l, err := n.Mesh.OpenReplication(node, addr)
	if err != nil {
		return "", err
	}
	return l.Addr(), nil
}

// Tap watches a link for one message.
func (n *Network) Tap(m nemesis.OnMessage, hit func(nemesis.Held)) error {
	l, err := n.link("tap", m.Link)
	if err != nil {
		return err
	}
	return l.Tap(m, func(held nemesis.Held) { n.Go(func() { hit(held) }) })
}

func (n *Network) link(verb, name string) (*proxy.Link, error) {
	if l := n.Mesh.Link(name); l != nil {
		return l, nil
	}
	if _, ok := n.refused[name]; ok {
		return nil, fmt.Errorf("%s %s: the client can't reach that node, so they have no link", verb, name)
	}
	return nil, fmt.Errorf("%s %s: there is no such link", verb, name)
}

// stampedReply is a server's, which it was asked for and gave between two instants of true time
// there.
type stampedReply struct {
	Value resp.Value    `json:"value"`
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
}

// AskStamped sends one command to a server past the links, as proc.Ask does, and says
// when.
func AskStamped(ctx context.Context, addr string, args ...string) (r stampedReply, err error) {
	if len(args) == 0 {
		return r, fmt.Errorf("ask %s: no command", addr)
	}
	r.From = proc.TrueClock()
	r.Value, err = proc.Ask(ctx, addr, args...)
	r.To = proc.TrueClock()
	return r, err
}

// AskStamped is AskStamped of this process.
func (*Network) AskStamped(ctx context.Context, addr string, args ...string) (stampedReply, error) {
	return AskStamped(ctx, addr, args...)
}

// state is how a server is, which nobody sees from the links that lead there.
type state struct {
	Down bool `json:"down"` // it does not run
	Mute bool `json:"mute"` // it runs and can't answer
}

// clockID names the clock that proc.TrueClock reads: of which start of which machine, and
// of which time namespace there; "": unknown.
func clockID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, _ := os.Readlink("/proc/self/ns/time") // before Linux 5.6 there is one
	return strings.TrimSpace(string(boot)) + space
}

var _ nemesis.Cutter = (*Network)(nil)

const (
	silence = 20 * time.Millisecond // without an answer for so long, a link is cut: it takes 0.1 ms otherwise
	patient = 2 * time.Second       // a mended link answers within

	// slowly is how long a PING is waited for that is meant to be slow.
	slowly = time.Second
)

// word is what a node is asked to see whether its link passes anything.
func word(n *Network, l *proxy.Link) string {
	if stored(n, l) {
		return "GET " + n.Store.Question
	}
	return "PING"
}

// stored says whether a link leads to a member of a store.
func stored(n *Network, l *proxy.Link) bool {
	return n.Store != nil && nodeOf(l) != scenario.ResourceName
}

// Cut cuts a link, and sees what PING meets there.
func (n *Network) Cut(name, mode, way string) (string, error) {
	l, err := n.link("cut", name)
	if err != nil {
		return "", err
	}
	before, within := -1, silence
	if way == nemesis.Reply && !n.Mute(nodeOf(l)) && !stored(n, l) {
		before = pings(n, name)
	}
	if l.Disturbed() {
		within = slowly // it may be slow as well
	}
	if err := l.Cut(mode, way); err != nil {
		return "", err
	}
	err = n.ping(l, within)
	asked := word(n, l)
	switch {
	case err == nil:
		return "", fmt.Errorf("cut %s: %s is still answered", name, asked)
	case mode == nemesis.CutReset:
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return "", fmt.Errorf("cut %s: %s was not reset: %w", name, asked, err)
		}
		return asked + " was reset", nil
	case mode == nemesis.CutRefuse:
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return "", fmt.Errorf("cut %s: %s was not refused: %w", name, asked, err)
		}
		return asked + " was refused", nil
	case way == nemesis.Reply && before >= 0:
		if !pinged(n, name, before) {
			return "", fmt.Errorf("cut %s: PING did not reach the node, and only replies are cut", name)
		}
		return fmt.Sprintf("PING got no answer, though the node gave one: %v", err), nil
	}
	return fmt.Sprintf("%s got no answer: %v", asked, err), nil
}

// pinged waits until the node of a link has answered PING more often than before. On a
// busy machine the PING may still be on its way when its sender's patience is over.
func pinged(n *Network, name string, before int) bool {
	for end := time.Now().Add(patient); pings(n, name) <= before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) || n.ctx.Err() != nil {
			return false
		}
	}
	return true
}

// pings is how many times the node of a link has answered PING, or −1 if it is down.
func pings(n *Network, name string) int {
	_, node, _ := nemesis.SplitLink(name)
	if n.Down(node) {
		return -1
	}
	v, err := proc.Ask(n.ctx, n.Addr(node), "INFO", "commandstats")
	if err != nil {
		return -1
	}
	_, stat, _ := strings.Cut(v.Str, "cmdstat_ping:calls=")
	count := 0
	fmt.Sscanf(stat, "%d", &count) // nothing there: it has answered none
	return count
}

// Mend mends a link and sees that PING gets an answer, if its node lives.
func (n *Network) Mend(name string) (string, error) {
	l, err := n.link("mend", name)
	if err != nil {
		return "", err
	}
	if err := l.Mend(); err != nil {
		return "", err
	}
	back, err := n.answers(l)
	if err != nil {
		return "", fmt.Errorf("mend %s: %w", name, err)
	}
	return back, nil
}

// answers reads back that a link passes PING, as far as its node lives and
// nothing else is done to it.
func (n *Network) answers(l *proxy.Link) (string, error) {
	if l.Disturbed() {
		return "something else is done to the link", nil
	}
	if n.Mute(nodeOf(l)) {
		return "the node is stopped, or waits for its disk, and answers nobody", nil
	}
	err := n.ping(l, patient)
	switch {
	case err == nil:
		return word(n, l) + " was answered", nil
	case l.Disturbed():
		return "something else is done to the link", nil
	case n.Mute(nodeOf(l)):
		return "the node was stopped, or waits for its disk, and answers nobody", nil
	case errors.Is(err, context.DeadlineExceeded) && stored(n, l) && !n.Down(nodeOf(l)):
		return "the node runs, and has not joined a majority of the others", nil
	case errors.Is(err, context.DeadlineExceeded) && !n.Down(nodeOf(l)): // whose address may swallow what is sent there
		return "", err
	}
	return fmt.Sprintf("the node is down: %v", err), nil
}

func nodeOf(l *proxy.Link) string {
	_, node, _ := nemesis.SplitLink(l.Name())
	return node
}

func (n *Network) ping(l *proxy.Link, within time.Duration) error {
	ctx, cancel := context.WithTimeout(n.ctx, within)
	defer cancel()
	var err error
	if stored(n, l) {
		err = n.Store.Ask(ctx, l.Addr())
	} else {
		_, err = proc.Ask(ctx, l.Addr(), "PING")
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("none within %v: %w", within, ctx.Err())
	}
	return err
}

// portRange is the local ports that a link dials its node from, by which its packets are
// told apart where a node's machine sees them.
type portRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// Ports is the range of a link.
func (n *Network) Ports(name string) (portRange, error) {
	l, err := n.link("find the ports of", name)
	if err != nil {
		return portRange{}, err
	}
	first, last := l.Ports()
	if first == 0 {
		return portRange{}, fmt.Errorf("find the ports of %s: links dial from any", name)
	}
	return portRange{first, last}, nil
}

// Silent sees that PING gets no answer on a link whose packets are lost below it.
func (n *Network) Silent(name string) (readBack string, err error) {
	l, err := n.link("see the silence of", name)
	if err != nil {
		return "", err
	}
	if err = n.ping(l, silence); err == nil {
		return "", fmt.Errorf("cut %s: %s is still answered", name, word(n, l))
	}
	return fmt.Sprintf("%s got no answer: %v", word(n, l), err), nil
}

// Heard sees that PING gets an answer when packets pass again, as far as the node can.
func (n *Network) Heard(name string) (readBack string, err error) {
	l, err := n.link("hear", name)
	if err != nil {
		return "", err
	}
	if readBack, err = n.answers(l); err != nil {
		return "", fmt.Errorf("mend %s: %w", name, err)
	}
	return readBack, nil
}

var _ nemesis.Shaper = (*Network)(nil)

// Shape changes the traffic of a link, and sees how long PING takes, where one
// PING can show it.
func (n *Network) Shape(name string, t nemesis.Traffic) (string, error) {
	l, err := n.link("shape", name)
	if err != nil {
		return "", err
	}
	disturbed := l.Disturbed()
	l.Shape(t)
	if !t.All() || t.Lose || disturbed {
		return t.String(), nil
	}
	ctx, cancel := context.WithTimeout(n.ctx, slowly)
	defer cancel()
	text, asked := echo(t), "PING"
	began := proc.TrueClock()
	if stored(n, l) {
		text, asked = "", word(n, l)
		err = n.Store.Ask(ctx, l.Addr())
	} else {
		_, err = proc.Ask(ctx, l.Addr(), "PING", text)
	}
	took := proc.TrueClock() - began
	least := leastTrip(t, len(text))
	switch {
	case ctx.Err() != nil && n.ctx.Err() == nil:
		return fmt.Sprintf("%v; %s got no answer within %v", t, asked, slowly), nil
	case err != nil:
		return fmt.Sprintf("%v; the node is down: %v", t, err), nil
	case took < least:
		return "", errors.Join(fmt.Errorf("shape %s: %s was answered after %v, and not after %v at the least", name, asked, took, least), undo(n, name, t))
	}
	return fmt.Sprintf("%v; %s of %d bytes was answered after %v", t, asked, len(text), took.Round(10*time.Microsecond)), nil
}

func undo(n *Network, name string, t nemesis.Traffic) error {
	if _, err := n.Unshape(name, t); !errors.Is(err, nemesis.ErrIdle) {
		return err
	}
	return nil
}

// echo is what PING is to bring back: enough to take a while where bytes are counted.
func echo(t nemesis.Traffic) string {
	const while = 50 // for 20 ms, and at most a mebibyte
	return strings.Repeat("x", max(1, min(t.Bandwidth/while, 1<<20)))
}

// leastTrip is the least time that PING and its answer can take.
func leastTrip(t nemesis.Traffic, bytes int) time.Duration {
	ways := 1
	if t.Way == "" {
		ways = 2
	}
	return time.Duration(ways) * (t.DelayMin + t.Takes(bytes))
}

// Unshape ends that, tells what it hit, and sees that PING gets an answer.
func (n *Network) Unshape(name string, t nemesis.Traffic) (string, error) {
	l, err := n.link("unshape", name)
	if err != nil {
		return "", err
	}
	met, err := l.Unshape(t)
	if err != nil {
		return "", err
	}
	back, err := n.answers(l)
	if err != nil {
		return "", fmt.Errorf("unshape %s: %w", name, err)
	}
	return met.ReadBack(back)
}
