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

// Links are what clients and servers talk through: a Network or a RemoteNetwork.
type Links interface {
	nemesis.Cutter
	nemesis.Shaper
	nemesis.Tapper
	Addresses(client string) (a addresses, ok bool)
	AskStamped(ctx context.Context, addr string, args ...string) (stampedReply, error)
	Begin(origin time.Duration) (epoch int64, err error)
	Gate(node string) (open func() error, err error)
	Turn(node, upstream string) error
	OpenReplication(node, addr string) (link string, err error)
	LetTell(addrs map[string]string) error
	Again(node, addr, why string)
	Ends(node string, inOrder bool) (goesOn func())
}

// Machine runs one program at a time: a process of this machine, or a container.
type Machine interface {
	Pause(ctx context.Context) (readBack string, err error)
	Resume(ctx context.Context) (readBack string, err error)
	Kill(ctx context.Context) (readBack string, err error)
}

// Server is one server on its machine. It keeps its address when it is killed and restarted.
type Server interface {
	Machine
	Redis() *proc.Server
	Addr() string
	Runs() bool
	Ended() bool  // it runs no more, if only since just now
	Mute() string // why it runs and can't answer; "": it can
	Restart(ctx context.Context) (readBack string, err error)
	Shutdown(ctx context.Context) (readBack string, err error)
}

// Run is one run.
type Run struct {
	*proc.Timeline
	Links // set before the servers are told of
	*fuse.Disks
	*Nodes
	*clocks                 // of nodes and clients, where they can be turned
	Ctx     context.Context // ends with the run
	Store   Server          // the resource's
	Servers []Server        // with all nodes and replicas, as they were started
	Version string          // of what nodes run; "": not to be named

	// Start starts a client, or takes one that waits for its order.
	Start func(name string) (*Client, error)
	// True is true time by CLOCK_MONOTONIC of where servers and clients are; nil: proc.TrueClock.
	True func() time.Duration

	rec   *history.Recorder
	tells bool  // the nodes tell of their keys
	epoch int64 // what a right wall clock shows at true time zero

	mu        sync.Mutex
	followers map[string]Server  // replicas, by their nodes
	clients   map[string]*Client // those that run
	ended     map[string]bool    // those that ran and run no more
}

// Begin makes this instant true time zero.
func (r *Run) Begin() (err error) {
	r.Timeline.Begin()
	r.epoch, err = r.Links.Begin(r.Origin())
	return err
}

// NodeReport is what the nodes are.
func (r *Run) NodeReport() harness.NodeReport {
	return harness.NodeReport{ReportsKeys: r.tells, Epoch: r.epoch, ServerVersion: r.Version}
}

// server is what serves a node now, or an error of what was to be done to it.
func (r *Run) server(verb, node string) (Server, error) {
	n, ok := r.Nodes.Find(node)
	if !ok {
		return n, fmt.Errorf("%s %s: there is no such node", verb, node)
	}
	return n, nil
}

// Resource asks the resource directly. Its error replies are errors.
func (r *Run) Resource(ctx context.Context, args ...string) (any, error) {
	return r.Store.Redis().Command(ctx, "the resource", args)
}

// Touch writes a key on a node, past the links, and reads it back.
func (r *Run) Touch(node string) (string, error) {
	n, err := r.server("touch", node)
	if err == nil && !n.Runs() { // nobody would refuse
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

// New returns a run that has not begun, without servers.
func New(ctx context.Context, rec *history.Recorder) *Run {
	r := &Run{rec: rec, True: proc.TrueClock, followers: map[string]Server{}, clients: map[string]*Client{}, ended: map[string]bool{}}
	r.Timeline = proc.NewTimeline(ctx)
	r.Ctx = r.Timeline.Context()
	r.clocks, r.Nodes = &clocks{run: r}, &Nodes{run: r}
	r.Disks = &fuse.Disks{Kill: r.Kill, Runs: func(node string) bool { return r.Nodes.Server(node).Runs() }}
	return r
}

// Role is what a server is started for.
type Role struct {
	Name, Persistence string
	Master            string // the node that it is a replica of; "": it is none
	Replicated        bool   // it is a replica, or has one
}

// StartServers starts the resource, the nodes that are redis-servers, and their replicas. It does all
// that at once, and other jobs with it, and returns what failed.
func (r *Run) StartServers(s scenario.Scenario, nodes []string, start func(Role) (Server, error), also ...func() error) (failed []error) {
	add := func(role Role) {
		also = append(also, func() error {
			server, err := start(role)
			if err == nil {
				r.serve(role, server)
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
	return proc.AtOnce(also...)
}

func (r *Run) serve(role Role, server Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Servers = append(r.Servers, server)
	switch {
	case role.Name == scenario.ResourceName:
		r.Store = server
	case role.Master != "":
		r.followers[role.Master] = server
	default:
		r.Serve(role.Name, server)
	}
}

// SetUp does, once the links are there, what is left to be done before a run can begin:
// the nodes tell of their keys where they can, each replica follows its node over a link
// of its own, and sentinels watch.
func (r *Run) SetUp(s scenario.Scenario, sentinel startSentinel) error {
	addrs := map[string]string{}
	for _, node := range s.NodeNames() {
		addrs[node] = r.Nodes.Server(node).Addr()
	}
	r.tells = s.Topology.Server == "" && r.LetTell(addrs) == nil // the run does without: Probe says what keeps them from it
	for node, replica := range r.followers {
		link, err := r.OpenReplication(node, addrs[node])
		if err != nil {
			return err
		}
		if err := r.replicate(node, replica, link); err != nil {
			return err
		}
	}
	if err := r.Watch(s, sentinel); err != nil {
		return err
	}
	if s.Topology.Server == "" && s.Topology.Persistence == "everysec" {
		return r.awaitSecond(s.NodeNames()[0])
	}
	return nil
}

// awaitSecond lets a run under everysec begin with a second of the nodes' wall clock.
// Redis up to 7.0 counts by these, not from its last sync: a plan that places a crash
// between two syncs needs no luck then.
func (r *Run) awaitSecond(node string) error {
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

// turn lets a node's links lead to its replica. The disk was the dead master's.
func (r *Run) turn(node, upstream string) error {
	r.Forget(node)
	r.Again(node, upstream, history.Failover)
	return r.Links.Turn(node, upstream)
}

// Pause stops a client or a node.
func (r *Run) Pause(target string) (string, error) {
	if n, ok := r.Nodes.Find(target); ok {
		return n.Pause(r.Ctx)
	}
	p := r.Client(target)
	if p == nil {
		return "", fmt.Errorf("pause %s: no such node or client runs: %w", target, nemesis.ErrEnded)
	}
	back, err := p.Pause(r.Ctx)
	return back, overIfEnded("pause", target, err)
}

// Resume lets it go on. There is nothing to do for one that was killed meanwhile.
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

// Kill ends a client or a node by SIGKILL.
func (r *Run) Kill(target string) (string, error) {
	if n, ok := r.Nodes.Find(target); ok {
		return r.EndBy(target, false, func() (string, error) { return n.Kill(r.Ctx) })
	}
	p := r.Client(target)
	if p == nil && r.over(target) {
		return "", fmt.Errorf("kill %s: %w", target, nemesis.ErrEnded)
	}
	if p == nil {
		return "", fmt.Errorf("kill %s: no such node or client runs", target)
	}
	p.killed.Store(true)
	back, err := p.Kill(r.Ctx)
	if errors.Is(err, proc.ErrEnded) {
		p.killed.Store(false)
	}
	return back, overIfEnded("kill", target, err)
}

// overIfEnded says in the nemesis's words that a client had ended already.
func overIfEnded(verb, client string, err error) error {
	if errors.Is(err, proc.ErrEnded) {
		return fmt.Errorf("%s %s: %w", verb, client, nemesis.ErrEnded)
	}
	return err
}

// Shutdown ends a node as an operator does.
func (r *Run) Shutdown(node string) (string, error) {
	n, err := r.server("shut down", node)
	if err != nil {
		return "", err
	}
	return r.EndBy(node, true, func() (string, error) { return n.Shutdown(r.Ctx) })
}

// EndBy ends a node whose last facts are waited for.
func (r *Run) EndBy(node string, inOrder bool, end func() (string, error)) (string, error) {
	goesOn := r.Ends(node, inOrder)
	back, err := end()
	if err != nil {
		goesOn()
	}
	return back, err
}

// Restart starts a node again that is down. One whose disk can lose data or be full
// may not come back, which is what becomes of such nodes, and no error.
func (r *Run) Restart(node string) (back string, err error) {
	n, err := r.server("restart", node)
	if err != nil {
		return "", err
	}
	open, err := r.Links.Gate(node)
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", node, err)
	}
	defer func() { err = errors.Join(err, open()) }()
	defer r.Clock(n.Redis().Name).starts()()
	back, err = n.Restart(r.Ctx)
	if errors.Is(err, proc.ErrWontStart) && r.Of(node) != nil {
		return "it did not come back: " + err.Error(), nil
	}
	if err != nil {
		return back, err
	}
	r.Again(node, n.Addr(), history.Restart)
	shown, err := r.clockAgain(n)
	return back + shown, err
}

// ReadTime asks a server for its clock, past the links.
func (r *Run) ReadTime(s Server) (ClockReading, error) {
	reply, err := r.AskStamped(r.Ctx, s.Addr(), "TIME")
	if err != nil {
		return ClockReading{}, err
	}
	return ReadTime(reply.Value, reply.From, reply.To)
}

// RunClient runs a client until it has ended. Its error is harness.ErrKilled if Kill
// ended it.
func (r *Run) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	a, ok := r.Addresses(s.Name)
	if !ok {
		return fmt.Errorf("run client %s: the scenario has no such client", s.Name)
	}
	s.Nodes, s.Resource, s.Start = a.Nodes, a.Resource, r.Now()
	m := r.Clock(s.Name)
	started := m.starts()
	defer started()
	p, err := r.enter(s.Name)
	if err != nil {
		return fmt.Errorf("run client %s: %w", s.Name, err)
	}
	if p.Freed != nil {
		defer p.Freed()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.Ctx, cancel)()
	kill := sync.OnceFunc(p.kill)
	defer context.AfterFunc(ctx, kill)()
	began := func(first ClockReading) error {
		defer started()
		return m.began(first)
	}
	left := func(l clientExit) {
		p.left = &l
		if l.Signal > 0 && !p.killed.Load() && ctx.Err() == nil {
			p.Gone(l.Signal)
		}
	}
	talk := conversation{In: p.In, Out: p.Out, Record: r.rec.Record, At: at, Clocks: p.clocks, Began: began, Left: left}
	if err = talk.hold(clientOrder{Spec: s, Origin: r.Origin(), Clocks: m != nil}); err != nil {
		kill()
	}
	if p.left == nil {
		select {
		case <-p.Done():
		case <-time.After(killBound): // it has nothing more to say, and stays
			kill()
		}
	}
	end := p.end()
	if p.Known != nil {
		p.Known(ctx, end)
	}
	r.mu.Lock()
	delete(r.clients, s.Name)
	r.ended[s.Name] = true
	r.mu.Unlock()
	if err = p.verdict(ctx, err, end); err != nil && err != harness.ErrKilled {
		err = fmt.Errorf("run client %s: %w", s.Name, err)
	}
	return err
}

// enter starts a client that does not run.
func (r *Run) enter(name string) (*Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients[name] != nil {
		return nil, errors.New("it runs already")
	}
	p, err := r.Start(name)
	if err != nil {
		return nil, err
	}
	p.clocks = make(chan ClockReading, 1)
	r.clients[name] = p
	return p, nil
}

// Client is one that runs; nil: it does not.
func (r *Run) Client(name string) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[name]
}

// Clients are those that run, by their names.
func (r *Run) Clients() map[string]*Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.clients)
}

// over reports whether a client ran and runs no more.
func (r *Run) over(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[client] && r.clients[client] == nil
}

// Program is what a client runs as. What is done to one that has ended is proc.ErrEnded,
// but to resume it.
type Program interface {
	Machine
	Paused() bool
	Done() <-chan struct{}
	End() error    // how it ended: nil is exit status 0; it waits for the end
	Struck() bool  // somebody else has ended it; it waits for the end
	Words() string // the end of what it has written on stderr
}

// Client is one client that runs.
type Client struct {
	Program
	In  io.Writer // its stdin
	Out io.Reader // its stdout

	// Freed is called when the client is over; nil: there is nothing to be freed.
	Freed func()
	// Gone is called when a signal that this run did not send ended a client in a ClientLoop.
	Gone func(signal int)
	// Known waits, where the end of a client may be that of more, until that is known.
	Known func(ctx context.Context, end error)

	killed atomic.Bool
	stuck  atomic.Pointer[error] // why it could not be ended; nil: it could
	clocks chan ClockReading     // what it says that its clocks show
	left   *clientExit           // how it left its room; nil: the room has ended, or there is none
}

// killBound is how long a client may take to end once it has been killed, or has nothing more to say.
const killBound = 10 * time.Second

// kill ends it. Where that is not possible, nobody listens to it any more.
func (p *Client) kill() {
	_, err := p.Kill(context.Background())
	select {
	case <-p.Done():
	case <-time.After(killBound):
		stuck := errors.Join(proc.Late(fmt.Sprintf("it still runs %v after it was killed", killBound)), err)
		p.stuck.Store(&stuck)
		if out, ok := p.Out.(io.Closer); ok {
			out.Close()
		}
	}
}

// end says how it came to its end: nil is exit status 0. It waits for it.
func (p *Client) end() error {
	stuck := p.stuck.Load()
	switch {
	case stuck != nil:
		return *stuck
	case p.left == nil:
		return p.End()
	case p.left.Error != "":
		return errors.New(p.left.Error)
	}
	return nil
}

// verdict says how the client came to its end, from what it said last and how it ended.
func (p *Client) verdict(ctx context.Context, said, end error) error {
	switch {
	case p.stuck.Load() != nil:
		return end
	case said == nil && end == nil:
		return nil
	case p.killed.Load():
		return harness.ErrKilled
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.left != nil && p.left.Signal > 0, p.left == nil && p.Struck(): // which is recorded
		return harness.ErrKilled
	case said != nil:
		return said
	}
	return fmt.Errorf("%w: %s", end, p.Words())
}

// AdapterProcess is an adapter that runs.
type AdapterProcess struct{ *proc.Piped }

// StartAdapter starts one in a group. It works where lockpick does, so that paths among its
// arguments mean what the user meant.
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
	cmd.ExtraFiles = []*os.File{dir} // Sweep knows it again by what it has open
	p, err := g.JoinPiped(nil, name, cmd)
	if err != nil {
		return nil, err
	}
	g.Cleanup(func() error { p.Leave(); return nil })
	return &AdapterProcess{p}, nil
}

// Speaks waits until there is something to read from it.
func (p *AdapterProcess) Speaks(ctx context.Context, bound time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(p.Out.Fd()), Events: unix.POLLIN}}
	for end := time.Now().Add(bound); ; {
		n, err := unix.Poll(fds, 50)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0 && fds[0].Revents&unix.POLLIN != 0:
			return nil
		case n > 0:
			return errors.New("it has ended without a word on stdout")
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(end):
			return fmt.Errorf("it has said no hello within %v", bound)
		}
	}
}

// Words is the end of what it has written on stderr, as a part of an error; "": nothing.
func (p *AdapterProcess) Words() string {
	words := p.Piped.Words()
	if words == "" {
		return ""
	}
	return "\nits last words on stderr:\n" + words
}
