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
	"strings"
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

// Links is the network between a run's clients and servers. Network and RemoteNetwork implement it.
type Links interface {
	nemesis.Cutter
	nemesis.Shaper
	nemesis.Tapper
	Addresses(client string) (a clientAddresses, ok bool)
	AskTimed(ctx context.Context, addr string, args ...string) (timedReply, error)
	Begin(origin time.Duration) (epoch int64, err error)
	HoldTraffic(node string) (release func() error, err error)
	Redirect(node, upstream string) error
	OpenReplication(node, addr string) (link string, err error)
	WatchKeys(addrs map[string]string) error
	NodeReturned(node, addr, why string)
	NodeEnding(node string, clean bool) (cancel func())
}

// Machine runs one program at a time, in a local process or in a container.
type Machine interface {
	Pause(ctx context.Context) (readBack string, err error)
	Resume(ctx context.Context) (readBack string, err error)
	Kill(ctx context.Context) (readBack string, err error)
}

// Server is a server program on its machine. It keeps its address when it is killed and restarted.
type Server interface {
	Machine
	Redis() *proc.Server
	Addr() string
	Running() bool
	Ended() bool             // whether it has exited, even if the exit has not been reported yet
	WhyUnresponsive() string // why it can't answer although it is running, or ""
	Restart(ctx context.Context) (readBack string, err error)
	Shutdown(ctx context.Context) (readBack string, err error)
}

// Run is one run of a scenario on a real backend.
type Run struct {
	*proc.Timeline
	Links // set before SetUp
	*fuse.Disks
	*Nodes
	*clocks                        // adjustable clocks of nodes and clients
	Ctx            context.Context // canceled when the run ends
	ResourceServer Server          // the resource's server
	Servers        []Server        // all servers including replicas, in start order
	Version        string          // name and version of the nodes' server software, such as "etcd 3.4.23"; "" for Redis until NodeReport asks for it

	// NewClient starts a client's process, or returns one that is already waiting for its order.
	NewClient func(name string) (*Client, error)
	// TrueTime returns true time, by CLOCK_MONOTONIC of the machine that runs the servers and
	// clients. The default is proc.TrueClock.
	TrueTime func() time.Duration

	rec         *history.Recorder
	reportsKeys bool  // whether the nodes report their keys
	epoch       int64 // correct wall clock time at true time zero, in nanoseconds since 1970

	mu           sync.Mutex
	replicaOf    map[string]Server  // replicas by their master's node
	clients      map[string]*Client // running clients
	endedClients map[string]bool    // names of clients that have run and exited
}

// Begin makes the current instant true time zero.
func (r *Run) Begin() (err error) {
	r.Timeline.Begin()
	r.epoch, err = r.Links.Begin(r.Origin())
	return err
}

// NodeReport describes the nodes. The resource runs the same software as Redis nodes, and reports its
// version.
func (r *Run) NodeReport() harness.NodeReport {
	if r.Version == "" {
		if info, err := r.Resource(r.Ctx, "INFO", "server"); err == nil {
			r.Version = serverVersion(fmt.Sprint(info))
		}
	}
	return harness.NodeReport{ReportsKeys: r.reportsKeys, Epoch: r.epoch, ServerVersion: r.Version}
}

// serverVersion returns a server's name and version from the reply to INFO. Valkey reports both its own
// version and a Redis version.
func serverVersion(info string) string {
	for _, name := range []string{"valkey", "redis"} {
		if _, rest, ok := strings.Cut(info, "\n"+name+"_version:"); ok {
			version, _, _ := strings.Cut(rest, "\r\n")
			return name + " " + version
		}
	}
	return ""
}

// server returns the server currently running as the node. verb names the failed operation in the
// error.
func (r *Run) server(verb, node string) (Server, error) {
	n, ok := r.Nodes.Find(node)
	if !ok {
		return n, fmt.Errorf("%s %s: no such node", verb, node)
	}
	return n, nil
}

// Resource sends a command straight to the resource. It returns an error reply as an error.
func (r *Run) Resource(ctx context.Context, args ...string) (any, error) {
	return r.ResourceServer.Redis().Command(ctx, "the resource", args)
}

// Touch writes a key directly on a node, bypassing links, and reads it back.
func (r *Run) Touch(node string) (string, error) {
	n, err := r.server("touch", node)
	if err == nil && !n.Running() { // connecting to a node that is down could hang
		err = fmt.Errorf("touch %s: it is down", node)
	}
	if err != nil {
		return "", err
	}
	readBack, err := n.Redis().Touch(r.Ctx, r.Now().String())
	if err != nil {
		return "", err
	}
	return readBack + r.DescribeUnsynced(node), nil
}

// New returns a run that has no servers and has not begun.
func New(ctx context.Context, rec *history.Recorder) *Run {
	r := &Run{rec: rec, TrueTime: proc.TrueClock, replicaOf: map[string]Server{}, clients: map[string]*Client{}, endedClients: map[string]bool{}}
	r.Timeline = proc.NewTimeline(ctx)
	r.Ctx = r.Timeline.Context()
	r.clocks, r.Nodes = &clocks{run: r}, &Nodes{run: r}
	r.Disks = &fuse.Disks{Kill: r.Kill, Running: func(node string) bool { return r.Nodes.Server(node).Running() }}
	return r
}

// Role describes a server to start.
type Role struct {
	Name, Persistence string
	Master            string // for a replica, the node that it replicates; otherwise ""
	Replicated        bool   // whether the server is a replica or has one
}

// StartServers starts the resource, the given nodes as redis-servers, and their replicas. All of
// them start concurrently, along with otherJobs. It returns all errors.
func (r *Run) StartServers(s scenario.Scenario, nodes []string, start func(Role) (Server, error), otherJobs ...func() error) (errs []error) {
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
		r.ResourceServer = server
	case role.Master != "":
		r.replicaOf[role.Master] = server
	default:
		r.SetMaster(role.Name, server)
	}
}

// SetUp prepares the run once the links are open: nodes report their keys if they can, each replica
// follows its node over its own link, and sentinels start.
func (r *Run) SetUp(s scenario.Scenario, sentinel sentinelStarter) error {
	addrs := map[string]string{}
	for _, node := range s.NodeNames() {
		addrs[node] = r.Nodes.Server(node).Addr()
	}
	r.reportsKeys = s.Topology.Server == "" && r.WatchKeys(addrs) == nil // optional; Probe reports why key reports are unavailable
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

// awaitFullSecond waits until the nodes' wall clock reaches a full second, for runs with
// persistence everysec. Redis up to 7.0 syncs when a second begins, not one second after its last
// sync. A plan can then reliably place a crash between two syncs.
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

// redirectToReplica connects a node's links to its replica. It forgets the node's disk, which
// belonged to the dead master.
func (r *Run) redirectToReplica(node, upstream string) error {
	r.Forget(node)
	r.NodeReturned(node, upstream, history.Failover)
	return r.Links.Redirect(node, upstream)
}

// Pause pauses a client or node.
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

// Resume resumes a client or node. It does nothing if the client was killed while it was paused.
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

// Kill sends SIGKILL to a client or node.
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

// translateEnded replaces proc.ErrEnded with nemesis.ErrEnded.
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

// EndNode calls end, which stops a node, after telling the links to expect the node's last key
// reports.
func (r *Run) EndNode(node string, clean bool, end func() (string, error)) (string, error) {
	cancel := r.NodeEnding(node, clean)
	readBack, err := end()
	if err != nil {
		cancel()
	}
	return readBack, err
}

// Restart restarts a node that is down. If the node's disk loses data or is full, the node may fail
// to start. That is an effect of the fault, not an error.
func (r *Run) Restart(node string) (readBack string, err error) {
	n, err := r.server("restart", node)
	if err != nil {
		return "", err
	}
	release, err := r.Links.HoldTraffic(node)
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", node, err)
	}
	defer func() { err = errors.Join(err, release()) }()
	defer r.Clock(n.Redis().Name).lockChanges()()
	readBack, err = n.Restart(r.Ctx)
	if errors.Is(err, proc.ErrWontStart) && r.Disk(node) != nil {
		return "it did not come back: " + err.Error(), nil
	}
	if err != nil {
		return readBack, err
	}
	r.NodeReturned(node, n.Addr(), history.Restart)
	clockReadBack, err := r.readRestartedClock(n)
	return readBack + clockReadBack, err
}

// ReadTime reads a server's clock, bypassing links.
func (r *Run) ReadTime(s Server) (ClockReading, error) {
	reply, err := r.AskTimed(r.Ctx, s.Addr(), "TIME")
	if err != nil {
		return ClockReading{}, err
	}
	return ParseTimeReply(reply.Value, reply.From, reply.To)
}

// RunClient runs a client until it exits. It returns harness.ErrKilled if the client was killed.
func (r *Run) RunClient(ctx context.Context, s client.Spec, onPoint func(point string)) error {
	addrs, ok := r.Addresses(s.Name)
	if !ok {
		return fmt.Errorf("run client %s: the scenario has no such client", s.Name)
	}
	s.Nodes, s.Resource, s.StartTime = addrs.Nodes, addrs.Resource, r.Now()
	clock := r.Clock(s.Name)
	unlock := clock.lockChanges()
	defer unlock()
	p, err := r.startClient(s.Name)
	if err != nil {
		return fmt.Errorf("run client %s: %w", s.Name, err)
	}
	if p.OnExit != nil {
		defer p.OnExit()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.Ctx, cancel)()
	kill := sync.OnceFunc(p.kill)
	defer context.AfterFunc(ctx, kill)()
	checkFirst := func(first ClockReading) error {
		defer unlock()
		return clock.checkFirstReading(first)
	}
	onExit := func(l clientExit) {
		p.exit = &l
		if l.Signal > 0 && !p.killed.Load() && ctx.Err() == nil {
			p.OnSignal(l.Signal)
		}
	}
	session := clientSession{In: p.In, Out: p.Out, Record: r.rec.Record, At: onPoint, Clocks: p.clocks, OnFirstReading: checkFirst, OnExit: onExit}
	if err = session.run(clientOrder{Spec: s, Origin: r.Origin(), Clocks: clock != nil}); err != nil {
		kill()
	}
	if p.exit == nil {
		select {
		case <-p.Done():
		case <-time.After(killTimeout): // the output has ended, but the process is still running
			kill()
		}
	}
	exitErr := p.exitErr()
	if p.AwaitCause != nil {
		p.AwaitCause(ctx, exitErr)
	}
	r.mu.Lock()
	delete(r.clients, s.Name)
	r.endedClients[s.Name] = true
	r.mu.Unlock()
	if err = p.result(ctx, err, exitErr); err != nil && err != harness.ErrKilled {
		err = fmt.Errorf("run client %s: %w", s.Name, err)
	}
	return err
}

// startClient starts a client. It fails if the client is already running.
func (r *Run) startClient(name string) (*Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients[name] != nil {
		return nil, errors.New("already running")
	}
	p, err := r.NewClient(name)
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

// clientEnded reports whether a client has run and exited.
func (r *Run) clientEnded(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endedClients[client] && r.clients[client] == nil
}

// Program is a client program on its machine. Once it has exited, Pause and Kill return
// proc.ErrEnded.
type Program interface {
	Machine
	Paused() bool
	Done() <-chan struct{}
	End() error             // waits for the exit and returns its error; nil means exit status 0
	KilledExternally() bool // waits for the exit and reports whether something outside lockpick caused it
	StderrTail() string     // the last lines of stderr
}

// Client is a running client.
type Client struct {
	Program
	In  io.Writer // the client's stdin
	Out io.Reader // the client's stdout

	// OnExit, if set, is called after the client has exited.
	OnExit func()
	// OnSignal is called if a signal that this run did not send has killed a client run by
	// ClientLoop.
	OnSignal func(signal int)
	// AwaitCause, if set, waits until it is known whether the client's exit is part of a larger
	// failure.
	AwaitCause func(ctx context.Context, end error)

	killed  atomic.Bool
	killErr atomic.Pointer[error] // why the client could not be killed, or nil
	clocks  chan ClockReading     // clock readings from the client
	exit    *clientExit           // reported by ClientLoop; nil if ClientLoop has exited or is not used
}

// killTimeout limits the time that a client takes to exit after a kill or the end of its output.
const killTimeout = 10 * time.Second

// kill kills the client. If the client does not exit in time, kill closes its output.
func (p *Client) kill() {
	_, err := p.Kill(context.Background())
	select {
	case <-p.Done():
	case <-time.After(killTimeout):
		killErr := errors.Join(proc.TimeoutError(fmt.Sprintf("still running %v after SIGKILL", killTimeout)), err)
		p.killErr.Store(&killErr)
		if out, ok := p.Out.(io.Closer); ok {
			out.Close()
		}
	}
}

// exitErr waits for the client to exit and returns its error; nil means exit status 0.
func (p *Client) exitErr() error {
	killErr := p.killErr.Load()
	switch {
	case killErr != nil:
		return *killErr
	case p.exit == nil:
		return p.End()
	case p.exit.Error != "":
		return errors.New(p.exit.Error)
	}
	return nil
}

// result derives the client's error from its last report and its exit.
func (p *Client) result(ctx context.Context, reportErr, exitErr error) error {
	switch {
	case p.killErr.Load() != nil:
		return exitErr
	case reportErr == nil && exitErr == nil:
		return nil
	case p.killed.Load():
		return harness.ErrKilled
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.exit != nil && p.exit.Signal > 0, p.exit == nil && p.KilledExternally(): // the kill is recorded elsewhere
		return harness.ErrKilled
	case reportErr != nil:
		return reportErr
	}
	return fmt.Errorf("%w: %s", exitErr, p.StderrTail())
}

// AdapterProcess is a running adapter.
type AdapterProcess struct{ *proc.PipedChild }

// StartAdapter starts an adapter in a group. The adapter runs in lockpick's working directory, so
// that relative paths in argv mean what the user expects.
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
	cmd.ExtraFiles = []*os.File{dir} // Sweep recognizes the adapter by this open directory
	p, err := g.StartPiped(nil, name, cmd)
	if err != nil {
		return nil, err
	}
	g.Cleanup(func() error { p.ClosePipes(); return nil })
	return &AdapterProcess{p}, nil
}

// AwaitOutput waits until the adapter writes to stdout.
func (p *AdapterProcess) AwaitOutput(ctx context.Context, timeout time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(p.Out.Fd()), Events: unix.POLLIN}}
	for end := time.Now().Add(timeout); ; {
		n, err := unix.Poll(fds, 50)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0 && fds[0].Revents&unix.POLLIN != 0:
			return nil
		case n > 0:
			return errors.New("exited without writing to stdout")
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(end):
			return fmt.Errorf("no hello within %v", timeout)
		}
	}
}

// StderrSuffix returns the last lines of the adapter's stderr as a suffix for an error message, or
// "" if there are none.
func (p *AdapterProcess) StderrSuffix() string {
	text := p.PipedChild.StderrTail()
	if text == "" {
		return ""
	}
	return "\nlast output on stderr:\n" + text
}
