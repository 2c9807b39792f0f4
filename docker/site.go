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

// testbed is what consecutive runs share on the engine: a network, the links' container, whose name and
// address stay the same, and the containers of nodes and clients.
type testbed struct {
	cfg           Config
	engine        *engine.Engine
	engineIsLocal bool     // the engine is on this machine
	clientCommand []string // client program and arguments
	nodeImage     string   // image for nodes named by the scenario, or ""
	software      software // what nodes run
	ownImage      *image   // image for clients and links, and source of gates
	labels        map[string]string
	prefix        string // of container names
	net           privateNet

	onCreate func(*container) // called for each new container before it starts, unless nil

	remoteNetwork  *real.RemoteNetwork
	linksContainer *container    // the links' container, or nil before it is created
	linksReady     chan struct{} // closed when the links answer or have failed to start

	mu               sync.Mutex
	nodes            map[role]*node        // includes the resource, replicas and sentinels
	clientContainers map[string]*container // by client; their programs keep running between runs
	clientHosts      map[string]int        // hosts on the network, by client
	usedHosts        map[int]bool          // hosts assigned to nodes
	// addresses maps hosts on the network to containers that just hold the host's address. A node that
	// shares such a container's network starts and stops in less than half the time, because the engine
	// sets up no new network for it.
	addresses map[int]*container
}

// agentCommand returns the command that starts an agent with the given role and arguments.
func (s *testbed) agentCommand(role ...string) []string {
	return append([]string{s.clientCommand[0], AgentVerb}, role...)
}

// linksAlive reports whether the links are running. Without them, the testbed cannot be reused.
func (s *testbed) linksAlive() bool {
	select {
	case <-s.remoteNetwork.Done():
		return false
	default:
		return true
	}
}

// makeContainer creates a container on the testbed's network. The default for m.Name is name, and for
// m.Image the image for clients and links. Canceling ctx does not interrupt the creation, because the
// engine would create the container anyway, and lockpick would not know about it.
func (s *testbed) makeContainer(ctx context.Context, name string, host int, m engine.ContainerSpec) (*container, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
	defer cancel()
	m.Image, m.Name, m.Network, m.Addr, m.Labels = cmp.Or(m.Image, s.ownImage.ref), s.prefix+cmp.Or(m.Name, name), s.net.name, s.net.addr(host), s.labels
	id, err := s.engine.Create(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("create the container of %s: %w", name, err)
	}
	b := &container{engine: s.engine, name: name, id: id, host: host, onThisMachine: s.engineIsLocal, killable: s.engineIsLocal && os.Geteuid() == 0}
	if s.onCreate != nil && m.ProcessesOf == "" { // such a sidecar ends with the container it traces
		s.onCreate(b)
	}
	return b, nil
}

// startLinks creates the links' container and returns when the links answer.
func (s *testbed) startLinks(ctx context.Context) error {
	defer close(s.linksReady)
	b, err := s.makeContainer(ctx, linksName, linksHost, engine.ContainerSpec{
		Command: s.agentCommand(linksAgent), Attached: true,
		// A link has few local ports, so it must reuse ports in TIME_WAIT.
		Sysctls: map[string]string{"net.ipv4.tcp_tw_reuse": "1"},
	})
	if err != nil {
		return err
	}
	s.linksContainer = b
	if err := b.startAttached(ctx); err != nil {
		return err
	}
	remote := real.DialNetwork(b.stdio.in, b.stdio.out)
	limit, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if _, _, err := remote.Offset(limit); err != nil {
		return fmt.Errorf("talk to the links: %w: %s", err, b.StderrTail())
	}
	s.remoteNetwork = remote
	return nil
}

// awaitLinks waits until the links have started.
func (s *testbed) awaitLinks(ctx context.Context) (*real.RemoteNetwork, error) {
	select {
	case <-s.linksReady:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.remoteNetwork == nil {
		return nil, errors.New("the links are not running")
	}
	return s.remoteNetwork, nil
}

const (
	// stampError is a generous error bound for timestamps. They are readings of the same kernel's clock
	// by different processes, possibly on different cores.
	stampError = time.Millisecond

	// maxDrift is the maximum relative drift between two clocks disciplined by NTP.
	maxDrift = 100e-6
)

func maxDriftIn(d time.Duration) time.Duration { return time.Duration(maxDrift * float64(d)) }

// ask sends a command to a server from the links' container but not through a link.
func (s *testbed) ask(ctx context.Context, addr string, args ...string) (resp.Value, error) {
	remote, err := s.awaitLinks(ctx)
	if err != nil {
		return resp.Value{}, err
	}
	if _, bounded := ctx.Deadline(); !bounded { // if the links were stopped, AskTimed would block forever
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, engineTimeout)
		defer cancel()
	}
	reply, err := remote.AskTimed(ctx, addr, args...)
	return reply.Value, err
}

const readyTimeout = 10 * time.Second // for the links to answer

// linksName is the name of the links' container in the history.
const linksName = "links"

func (s *testbed) linksAnswer(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, linksAnswerTimeout)
	defer cancel()
	_, _, err := s.remoteNetwork.Clock(ctx)
	return err == nil
}

const linksAnswerTimeout = 200 * time.Millisecond
