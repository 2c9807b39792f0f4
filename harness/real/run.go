//go:build linux

package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/real/fuse"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Links is the network between clients and servers. It is implemented by Network and
// RemoteNetwork.
type Links interface {
	nemesis.Cutter
	nemesis.Shaper
	nemesis.Tapper
	Addresses(client string) (a clientAddresses, ok bool)
	AskStamped(ctx context.Context, addr string, args ...string) (stampedReply, error)
	Begin(origin time.Duration) (epoch int64, err error)
	HoldTraffic(node string) (open func() error, err error)
	Redirect(node, upstream string) error
	OpenReplication(node, addr string) (link string, err error)
	WatchKeys(addrs map[string]string) error
	NodeReturned(node, addr, why string)
	NodeEnding(node string, inOrder bool) (goesOn func())
}

// Machine runs one program at a time, either as a process on this machine or in a container.
type Machine interface {
	Pause(ctx context.Context) (readBack string, err error)
	Resume(ctx context.Context) (readBack string, err error)
	Kill(ctx context.Context) (readBack string, err error)
}

// Server is a server with the machine that it runs on. It keeps its address when it is killed and
// restarted.
type Server interface {
	Machine
	Redis() *proc.Server
	Addr() string
	Running() bool
	Ended() bool             // whether it has exited; also detects an exit that was not reported yet
	WhyUnresponsive() string // why a running server can't answer, or "" if it can
	Restart(ctx context.Context) (readBack string, err error)
	Shutdown(ctx context.Context) (readBack string, err error)
}

// Run is one run of a scenario on a real backend.
type Run struct {
	*proc.Timeline
	Links // set before SetUp
	*fuse.Disks
	*Nodes
	*clocks                 // of nodes and clients, if they can be changed
	Ctx     context.Context // canceled when the run ends
	Store   Server          // the resource's server
	Servers []Server        // all servers including replicas, in starting order
	Version string          // version of the nodes' server software, or "" if it is not reported

	// Start starts a client, or returns a client whose process is already waiting for its order.
	Start func(name string) (*Client, error)
	// TrueTime returns true time by CLOCK_MONOTONIC of the machine on which servers and clients
	// run. If nil, proc.TrueClock is used.
	TrueTime func() time.Duration

	rec         *history.Recorder
	reportsKeys bool  // whether the nodes report their keys
	epoch       int64 // what a correct wall clock shows at true time zero, in nanoseconds since 1970

	mu        sync.Mutex
	replicaOf map[string]Server  // replicas by node
	clients   map[string]*Client // running clients
	ended     map[string]bool    // clients that have run and have exited
}

// Begin makes the current instant true time zero.
func (r *Run) Begin() (err error) {
	r.Timeline.Begin()
	r.epoch, err = r.Links.Begin(r.Origin())
	return err
}

func (r *Run) NodeReport() harness.NodeReport {
	return harness.NodeReport{ReportsKeys: r.reportsKeys, Epoch: r.epoch, ServerVersion: r.Version}
}

// server returns the server that currently runs as the given node. verb names the failed operation
// in the error.
func (r *Run) server(verb, node string) (Server, error) {
	n, ok := r.Nodes.Find(node)
	if !ok {
		return n, fmt.Errorf("%s %s: there is no such node", verb, node)
	}
	return n, nil
}

// Resource sends a command directly to the resource. It returns an error reply as an error.
func (r *Run) Resource(ctx context.Context, args ...string) (any, error) {
	return r.Store.Redis().Command(ctx, "the resource", args)
}

// Touch writes a key on a node, without going through a link, and reads it back.
func (r *Run) Touch(node string) (string, error) {
	n, err := r.server("touch", node)
	if err == nil && !n.Running() { // a connect could hang instead of being refused
		err = fmt.Errorf("touch %s: it is down", node)
	}
	if err != nil {
		return "", err
	}
	back, err := n.Redis().Touch(r.Ctx, r.Now().String())
	if err != nil {
		return "", err
	}
	return back + r.Unsynced(node), nil
}

// New returns a run that has no servers and has not begun.
func New(ctx context.Context, rec *history.Recorder) *Run {
	r := &Run{rec: rec, TrueTime: proc.TrueClock, replicaOf: map[string]Server{}, clients: map[string]*Client{}, ended: map[string]bool{}}
	r.Timeline = proc.NewTimeline(ctx)
	r.Ctx = r.Timeline.Context()
	r.clocks, r.Nodes = &clocks{run: r}, &Nodes{run: r}
	r.Disks = &fuse.Disks{Kill: r.Kill, Running: func(node string) bool { return r.Nodes.Server(node).Running() }}
	return r
}

// Role describes a server to be started.
type Role struct {
	Name, Persistence string
	Master            string // node whose replica it is, or "" if it is not a replica
	Replicated        bool   // whether it is a replica or has one
}

// StartServers starts the resource, the nodes that are redis-servers, and their replicas. They
// start concurrently with each other and with the other jobs. It returns the errors that occurred.
func (r *Run) StartServers(s scenario.Scenario, nodes []string, start func(Role) (Server, error), otherJobs ...func() error) (failed []error) {
	add := func(role Role) {
		otherJobs = append(otherJobs, func() error {
			server, err := start(role)
			if err == nil {
				r.addServer(role, server)
			}
			return err
		})
	}
	add(Role{Name: scenario.ResourceName, Persistence: "none"})
	for _, node := range nodes {
		role := Role{Name: node, Persistence: s.Topology.Persistence, Replicated: s.Topology.Replicas > 0}
		add(role)
		if role.Replicated {
			role.Name, role.Master = nemesis.LinkName(node, nemesis.Replica), node
			add(role)
		}
	}
	return proc.Parallel(otherJobs...)
}

func (r *Run) addServer(role Role, server Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Servers = append(r.Servers, server)
	switch {
	case role.Name == scenario.ResourceName:
		r.Store = server
	case role.Master != "":
		r.replicaOf[role.Master] = server
	default:
		r.SetMaster(role.Name, server)
	}
}

// SetUp prepares the run once the links are open: nodes start to report their keys if they can,
// each replica follows its node over its own link, and sentinels start.
func (r *Run) SetUp(s scenario.Scenario, sentinel sentinelStarter) error {
	addrs := map[string]string{}
	for _, node := range s.NodeNames() {
		addrs[node] = r.Nodes.Server(node).Addr()
	}
	r.reportsKeys = s.Topology.Server == "" && r.WatchKeys(addrs) == nil // the run works without it; Probe reports why it is unavailable
	for node, replica := range r.replicaOf {
		link, err := r.OpenReplication(node, addrs[node])
		if err != nil {
			return err
		}
		if err := r.replicate(node, replica, link); err != nil {
			return err
		}
	}
	if err := r.StartSentinels(s, sentinel); err != nil {
		return err
	}
	if s.Topology.Server == "" && s.Topology.Persistence == "everysec" {
		return r.awaitFullSecond(s.NodeNames()[0])
	}
	return nil
}

// awaitFullSecond waits until a second of the nodes' wall clock begins, in runs with persistence
// everysec. Redis up to 7.0 syncs at the beginning of a second, not one second after its last
// sync. So a plan can reliably place a crash between two syncs.
func (r *Run) awaitFullSecond(node string) error {
	now, err := r.ReadTime(r.Nodes.Server(node))
	if err != nil {
		return err
	}
	select {
	case <-r.Ctx.Done():
		return context.Cause(r.Ctx)
	case <-time.After(time.Second - time.Duration(now.Wall)%time.Second):
		return nil
	}
}

// redirectToReplica connects a node's links to its replica. The node no longer has a disk, because
// that belonged to the dead master.
func (r *Run) redirectToReplica(node, upstream string) error {
	r.Forget(node)
	r.NodeReturned(node, upstream, history.Failover)
	return r.Links.Redirect(node, upstream)
}

// Pause pauses a client or a node.
func (r *Run) Pause(target string) (string, error) {
	if n, ok := r.Nodes.Find(target); ok {
		return n.Pause(r.Ctx)
	}
	p := r.Client(target)
	if p == nil {
		return "", fmt.Errorf("pause %s: no such node or client is running: %w", target, nemesis.ErrEnded)
	}
	back, err := p.Pause(r.Ctx)
	return back, translateEnded("pause", target, err)
}

// Resume resumes a client or node. It does nothing if the program was killed while it was paused.
func (r *Run) Resume(target string) (string, error) {
	if n, ok := r.Nodes.Find(target); ok {
		return n.Resume(r.Ctx)
	}
	p := r.Client(target)
	if p == nil {
		return "it has ended", nil
	}
	return p.Resume(r.Ctx)
}

// Kill kills a client or a node with SIGKILL.
func (r *Run) Kill(target string) (string, error) {
	if n, ok := r.Nodes.Find(target); ok {
		return r.EndNode(target, false, func() (string, error) { return n.Kill(r.Ctx) })
	}
	p := r.Client(target)
	if p == nil && r.clientEnded(target) {
		return "", fmt.Errorf("kill %s: %w", target, nemesis.ErrEnded)
	}
	if p == nil {
		return "", fmt.Errorf("kill %s: no such node or client is running", target)
	}
	p.killed.Store(true)
	back, err := p.Kill(r.Ctx)
	if errors.Is(err, proc.ErrEnded) {
		p.killed.Store(false)
	}
	return back, translateEnded("kill", target, err)
}

// translateEnded replaces proc.ErrEnded by the error that package nemesis defines for a client
// that has exited.
func translateEnded(verb, client string, err error) error {
	if errors.Is(err, proc.ErrEnded) {
		return fmt.Errorf("%s %s: %w", verb, client, nemesis.ErrEnded)
	}
	return err
}

// Shutdown shuts a node down cleanly, as an operator would.
func (r *Run) Shutdown(node string) (string, error) {
	n, err := r.server("shut down", node)
	if err != nil {
		return "", err
	}
	return r.EndNode(node, true, func() (string, error) { return n.Shutdown(r.Ctx) })
}

// EndNode calls end, which ends a node. It also makes the links wait for the node's last key
// reports.
func (r *Run) EndNode(node string, inOrder bool, end func() (string, error)) (string, error) {
	stillRuns := r.NodeEnding(node, inOrder)
	back, err := end()
	if err != nil {
		stillRuns()
	}
	return back, err
}

// Restart restarts a node that is down. If the node's disk can lose data or be full, the node may
// fail to start. That is an effect of the fault and not an error.
func (r *Run) Restart(node string) (back string, err error) {
	n, err := r.server("restart", node)
	if err != nil {
		return "", err
	}
	open, err := r.Links.HoldTraffic(node)
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", node, err)
	}
	defer func() { err = errors.Join(err, open()) }()
	defer r.Clock(n.Redis().Name).lockUntilStarted()()
	back, err = n.Restart(r.Ctx)
	if errors.Is(err, proc.ErrWontStart) && r.Disk(node) != nil {
		return "it did not come back: " + err.Error(), nil
	}
	if err != nil {
		return back, err
	}
	r.NodeReturned(node, n.Addr(), history.Restart)
	shown, err := r.readRestartedClock(n)
	return back + shown, err
}

// ReadTime reads a server's clock without going through a link.
func (r *Run) ReadTime(s Server) (ClockReading, error) {
	reply, err := r.AskStamped(r.Ctx, s.Addr(), "TIME")
	if err != nil {
		return ClockReading{}, err
	}
	return ParseTimeReply(reply.Value, reply.From, reply.To)
}

// RunClient runs a client until it exits. If Kill killed the client, the error is
// harness.ErrKilled.
func (r *Run) RunClient(ctx context.Context, s client.Spec, onPoint func(point string)) error {
	a, ok := r.Addresses(s.Name)
	if !ok {
		return fmt.Errorf("run client %s: the scenario has no such client", s.Name)
	}
	s.Nodes, s.Resource, s.Start = a.Nodes, a.Resource, r.Now()
	m := r.Clock(s.Name)
	started := m.lockUntilStarted()
	defer started()
	p, err := r.startClient(s.Name)
	if err != nil {
		return fmt.Errorf("run client %s: %w", s.Name, err)
	}
	if p.OnEnd != nil {
		defer p.OnEnd()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.Ctx, cancel)()
	kill := sync.OnceFunc(p.kill)
	defer context.AfterFunc(ctx, kill)()
	began := func(first ClockReading) error {
		defer started()
		return m.checkFirstReading(first)
	}
	left := func(l clientExit) {
		p.exit = &l
		if l.Signal > 0 && !p.killed.Load() && ctx.Err() == nil {
			p.OnSignal(l.Signal)
		}
	}
	talk := clientSession{In: p.In, Out: p.Out, Record: r.rec.Record, At: onPoint, Clocks: p.clocks, Began: began, OnExit: left}
	if err = talk.run(clientOrder{Spec: s, Origin: r.Origin(), Clocks: m != nil}); err != nil {
		kill()
	}
	if p.exit == nil {
		select {
		case <-p.Done():
		case <-time.After(killTimeout): // its output has ended, but not its process
			kill()
		}
	}
	end := p.exitErr()
	if p.AwaitCause != nil {
		p.AwaitCause(ctx, end)
	}
	r.mu.Lock()
	delete(r.clients, s.Name)
	r.ended[s.Name] = true
	r.mu.Unlock()
	if err = p.result(ctx, err, end); err != nil && err != harness.ErrKilled {
		err = fmt.Errorf("run client %s: %w", s.Name, err)
	}
	return err
}

// startClient starts a client unless it is already running.
func (r *Run) startClient(name string) (*Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients[name] != nil {
		return nil, errors.New("it is already running")
	}
	p, err := r.Start(name)
	if err != nil {
		return nil, err
	}
	p.clocks = make(chan ClockReading, 1)
	r.clients[name] = p
	return p, nil
}

// Client returns the running client with the given name, or nil.
func (r *Run) Client(name string) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[name]
}

// Clients returns the running clients by name.
func (r *Run) Clients() map[string]*Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.clients)
}

// clientEnded reports whether a client has run and has exited.
func (r *Run) clientEnded(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[client] && r.clients[client] == nil
}

// Program is a program that runs a client. All of its methods but Resume return proc.ErrEnded once
// the program has exited.
type Program interface {
	Machine
	Paused() bool
	Done() <-chan struct{}
	End() error             // waits for the exit and returns its error, or nil for exit status 0
	KilledExternally() bool // waits for the exit and reports whether something outside of lockpick caused it
	StderrTail() string     // the end of its stderr
}

// Client is a running client.
type Client struct {
	Program
	In  io.Writer // its stdin
	Out io.Reader // its stdout

	// OnEnd, if set, is called when the client has exited.
	OnEnd func()
	// OnSignal is called when a client run by ClientLoop was killed by a signal that this run did
	// not send.
	OnSignal func(signal int)
	// AwaitCause waits until it is known whether the client's exit has a more general cause.
	AwaitCause func(ctx context.Context, end error)

	killed  atomic.Bool
	killErr atomic.Pointer[error] // why it could not be killed, or nil
	clocks  chan ClockReading     // clock readings that it has reported
	exit    *clientExit           // reported by its ClientLoop; nil if that has exited or there is none
}

// killTimeout is the time limit for a client to exit after it was killed or its output was closed.
const killTimeout = 10 * time.Second

// kill kills the client. If that fails, it closes the client's output.
func (p *Client) kill() {
	_, err := p.Kill(context.Background())
	select {
	case <-p.Done():
	case <-time.After(killTimeout):
		stuck := errors.Join(proc.TimeoutError(fmt.Sprintf("it is still running %v after it was killed", killTimeout)), err)
		p.killErr.Store(&stuck)
		if out, ok := p.Out.(io.Closer); ok {
			out.Close()
		}
	}
}

// exitErr waits for the client to exit and returns its error, or nil for exit status 0.
func (p *Client) exitErr() error {
	stuck := p.killErr.Load()
	switch {
	case stuck != nil:
		return *stuck
	case p.exit == nil:
		return p.End()
	case p.exit.Error != "":
		return errors.New(p.exit.Error)
	}
	return nil
}

// result returns the client's error, based on its last report and on how it exited.
func (p *Client) result(ctx context.Context, reported, end error) error {
	switch {
	case p.killErr.Load() != nil:
		return end
	case reported == nil && end == nil:
		return nil
	case p.killed.Load():
		return harness.ErrKilled
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.exit != nil && p.exit.Signal > 0, p.exit == nil && p.KilledExternally(): // the kill is recorded elsewhere
		return harness.ErrKilled
	case reported != nil:
		return reported
	}
	return fmt.Errorf("%w: %s", end, p.StderrTail())
}

// AdapterProcess is a running adapter.
type AdapterProcess struct{ *proc.Piped }

// StartAdapter starts an adapter in a group. The adapter runs in lockpick's working directory, so
// that relative paths in its arguments mean what the user intended.
func StartAdapter(g *proc.Group, name string, argv []string) (*AdapterProcess, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	var err error
	if cmd.Dir, err = os.Getwd(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	dir, err := os.Open(g.Dir)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer dir.Close()
	cmd.ExtraFiles = []*os.File{dir} // Sweep recognizes it by this open directory
	p, err := g.StartPiped(nil, name, cmd)
	if err != nil {
		return nil, err
	}
	g.Cleanup(func() error { p.ClosePipes(); return nil })
	return &AdapterProcess{p}, nil
}

// AwaitOutput waits until there is output on the adapter's stdout.
func (p *AdapterProcess) AwaitOutput(ctx context.Context, bound time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(p.Out.Fd()), Events: unix.POLLIN}}
	for end := time.Now().Add(bound); ; {
		n, err := unix.Poll(fds, 50)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0 && fds[0].Revents&unix.POLLIN != 0:
			return nil
		case n > 0:
			return errors.New("it exited without writing to stdout")
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(end):
			return fmt.Errorf("no hello within %v", bound)
		}
	}
}

// StderrSuffix returns the end of the adapter's stderr, formatted as a suffix for an error
// message. It returns "" if the adapter wrote nothing there.
func (p *AdapterProcess) StderrSuffix() string {
	words := p.Piped.StderrTail()
	if words == "" {
		return ""
	}
	return "\nits last output on stderr:\n" + words
}
