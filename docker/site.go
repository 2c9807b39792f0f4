//go:build linux

package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"lockpick/docker/engine"
	"lockpick/harness/real"
	"lockpick/harness/resp"
)

// site is what the engine has for one run after the other: a network, the container of the
// links, which keep their names and addresses for as long as the site stands, and those of
// nodes and clients.
type site struct {
	cfg      Config
	engine   *engine.Engine
	here     bool     // the engine is on this machine
	client   []string // program of a client, and its arguments
	named    string   // image that the scenario wants for nodes; "": none
	software software // and what they run
	own      *image   // of clients and links, and of which gates are made
	labels   map[string]string
	prefix   string // of the names of containers
	net      privateNet

	made func(*box) // sees each container before it starts; nil: nobody does

	remote   *real.RemoteNetwork
	linksBox *box          // the container of the links; nil: it was not made
	joined   chan struct{} // closed when the links can be talked to, or never will

	mu          sync.Mutex
	nodes       map[role]*node  // with the resource, replicas and sentinels
	clientBoxes map[string]*box // of clients; they stay for the next run, and so do their programs
	hosts       map[string]int  // of clients, on the network
	housed      map[int]bool    // hosts where a node is, or is about to be
	// addresses are containers that only hold an address on the network, by host. A node that shares
	// one's network starts and ends in less than half the time: the engine need not make that anew.
	addresses map[int]*box
}

// agent is the command that starts an agent, see Agent.
func (s *site) agent(role ...string) []string {
	return append([]string{s.client[0], AgentVerb}, role...)
}

// lives says whether its links do, without which it is of no use.
func (s *site) lives() bool {
	select {
	case <-s.remote.Ended():
		return false
	default:
		return true
	}
}

// makeBox makes a container on the site's network, called as it is unless m has a name, of
// lockpick's image unless m has another. It is not canceled halfway, because the engine
// would go on and create a container that close does not know of.
func (s *site) makeBox(ctx context.Context, name string, host int, m engine.Making) (*box, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineBound)
	defer cancel()
	m.Image, m.Name, m.Network, m.Addr, m.Labels = cmp.Or(m.Image, s.own.ref), s.prefix+cmp.Or(m.Name, name), s.net.name, s.net.at(host), s.labels
	id, err := s.engine.Create(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("make the container of %s: %w", name, err)
	}
	b := &box{engine: s.engine, name: name, id: id, host: host, near: s.here, here: s.here && os.Geteuid() == 0}
	if s.made != nil && m.Traces == "" { // which ends with the one that it traces
		s.made(b)
	}
	return b, nil
}

// join makes the container of the links, and returns once it can be talked to.
func (s *site) join(ctx context.Context) error {
	defer close(s.joined)
	b, err := s.makeBox(ctx, linksName, linksHost, engine.Making{
		Command: s.agent(linksAgent), Talks: true,
		// A link that dials from few ports takes one again whose last connection only waits.
		Sysctls: map[string]string{"net.ipv4.tcp_tw_reuse": "1"},
	})
	if err != nil {
		return err
	}
	s.linksBox = b
	if err := b.startTalking(ctx); err != nil {
		return err
	}
	remote := real.DialNetwork(b.talk.in, b.talk.out)
	limit, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	if _, _, err := remote.Offset(limit); err != nil {
		return fmt.Errorf("talk to the links: %w: %s", err, b.Words())
	}
	s.remote = remote
	return nil
}

// network waits for the links, which reach everybody.
func (s *site) network(ctx context.Context) (*real.RemoteNetwork, error) {
	select {
	case <-s.joined:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.remote == nil {
		return nil, errors.New("the links are not there")
	}
	return s.remote, nil
}

const (
	// stampError is generous: all stamps are readings of one clock of one kernel, by
	// different processes, which may be on different cores.
	stampError = time.Millisecond

	// drifts is how much faster than another a clock may run that NTP looks after.
	drifts = 100e-6
)

func driftIn(d time.Duration) time.Duration { return time.Duration(drifts * float64(d)) }

// ask sends a server a command from the links' container, past all links.
func (s *site) ask(ctx context.Context, addr string, args ...string) (resp.Value, error) {
	remote, err := s.network(ctx)
	if err != nil {
		return resp.Value{}, err
	}
	if _, bounded := ctx.Deadline(); !bounded { // or links that stand still would keep us for ever
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, engineBound)
		defer cancel()
	}
	reply, err := remote.AskStamped(ctx, addr, args...)
	return reply.Value, err
}

const readyBound = 10 * time.Second // how long the links may take to answer

// linksName is what the record calls the container of the links.
const linksName = "links"

func (s *site) linksAnswer(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerSoon)
	defer cancel()
	_, _, err := s.remote.Clock(ctx)
	return err == nil
}

const answerSoon = 200 * time.Millisecond
