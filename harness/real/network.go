// Package network is what a real backend does to the links of a run, and how each
// fault is read back: by a PING over the link.
//
// Its nouns are Network, the links between the clients and the nodes of one scenario,
// which has the powers over links and messages that package nemesis declares; and
// Remote, a Network of another process, which Serve makes there, with the same powers.
//
// What passes the links is heard by the lives of the nodes' keys (package life), which it
// closes before.
//
// Deliberately missing: the links themselves (package link), and what the nodes run
// on, of which it knows their addresses and whether they can answer.
package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
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

// New returns a network without links. What is drawn for messages depends on the seed;
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

// Client is one client as far as its links go.
type linkClient struct {
	Name  string   `json:"name"`
	Reach []string `json:"reach"` // nodes that it can talk to; nil: all
}

// ClientsOf are a scenario's clients.
func LinkClients(s scenario.Scenario) []linkClient {
	var out []linkClient
	for _, c := range s.Clients {
		out = append(out, linkClient{c.Name, c.Reach})
	}
	return out
}

// Open makes the links of every client to all nodes and the resource, and an address
// that refuses for each node that it can't reach.
func (n *Network) Open(nodes []string, clients []linkClient) error {
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

func (n *Network) openLink(client linkClient, node string) (addr string, err error) {
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
// from it, see life.Lives.
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

// Reply is a server's, which it was asked for and gave between two instants of true time
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
