//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lockpick/docker/engine"
	"lockpick/harness/real"
	"lockpick/harness/real/fuse"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/nemesis"
)

// redisPort is where every server listens in its container.
const redisPort = "6379"

// node is a redis-server in a container. It keeps its address and its data when it
// is killed and started again.
type node struct {
	proc.Server
	*box
	site    *site
	address *box // that has its network
	want    wanted

	changing sync.Mutex // held while it is started or ended
	is       proc.Identity

	telling sync.Mutex // held while the links are told how it is
	removed bool

	unplugged, starved atomic.Bool // now
	everStarved        atomic.Bool // it was starved, if not now
	spoiled            atomic.Bool // it is not as it was when it was new
}

// role is what the site keeps a node for: it has one for each way of persistence, and one
// more for a run that does to its nodes what wipe does not undo.
type role struct {
	name, persist string
	once          bool // it is of no use to another run
}

// tell tells the links how it is: they close the clients of one that is down at once,
// since a connect to an address where nobody is takes seconds to fail.
func (n *node) tell(ctx context.Context) {
	remote, err := n.site.network(ctx)
	if err != nil {
		return
	}
	n.telling.Lock()
	defer n.telling.Unlock()
	if !n.removed { // or another may have its address
		remote.Tell(ctx, n.At, n.Runs(), !n.deaf()) // links that have ended need not know
	}
}

// deaf says whether it may be there and answer nobody, whatever its links do.
func (n *node) deaf() bool {
	return n.Paused() || n.unplugged.Load() || n.starved.Load() || n.want.disk != nil && n.want.disk.Stalled()
}

// Mute says why it is there and can't answer; "": it can.
func (n *node) Mute() string {
	switch {
	case n.Paused():
		return "it is paused"
	case n.unplugged.Load():
		return "it is unplugged"
	}
	return ""
}

// quiet waits until it is not just being started or ended, and keeps it from that until
// done is called, which tells the links how it is.
func (n *node) quiet(ctx context.Context) (done func()) {
	n.changing.Lock()
	return func() {
		n.changing.Unlock()
		n.tell(ctx)
	}
}

// Pause freezes it.
func (n *node) Pause(ctx context.Context) (readBack string, err error) {
	defer n.quiet(ctx)()
	return n.box.Pause(ctx)
}

// Resume lets it go on.
func (n *node) Resume(ctx context.Context) (readBack string, err error) {
	defer n.tell(ctx)
	return n.box.Resume(ctx)
}

// begin starts it and returns once it answers.
func (n *node) begin(ctx context.Context) (err error) {
	if err := n.start(ctx); err != nil {
		return err
	}
	if err := n.site.openGate(ctx, n.box, n.want.clock); err != nil {
		return err
	}
	ended := n.Done()
	if n.is, err = n.Ready(ctx, ended); err != nil {
		return fmt.Errorf("start %s at %s: %w", n.Name, n.At, err)
	}
	n.tell(ctx)
	go func() {
		<-ended
		n.tell(context.WithoutCancel(ctx))
	}()
	return nil
}

// Restart starts it again when it has ended, with what its disk kept, and says which
// process answers now and how many keys it has.
func (n *node) Restart(ctx context.Context) (readBack string, err error) {
	if n.unplugged.Load() {
		return "", fmt.Errorf("restart %s: it is unplugged, and nobody would see whether it is back", n.Name)
	}
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.Runs() {
		return "", fmt.Errorf("restart %s: it runs", n.Name)
	}
	before := n.is
	if err := n.begin(ctx); err != nil {
		return "", err
	}
	keys, err := n.Again(ctx, before, n.is)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("container %.12s, %s", n.id, keys), nil
}

// Shutdown asks it to end in good order, and waits until it has.
func (n *node) Shutdown(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	switch {
	case !n.Runs():
		return "", fmt.Errorf("shut %s down: it does not run", n.Name)
	case n.Paused() || n.unplugged.Load():
		return "", fmt.Errorf("shut %s down: it is paused or unplugged, and hears nothing", n.Name)
	}
	if err := n.Server.Shutdown(ctx, n.Done(), n.mayEnd, n.box.End); err != nil {
		return "", err
	}
	n.tell(ctx)
	return fmt.Sprintf("container %.12s ended in good order", n.id), nil
}

// Kill ends it without warning.
func (n *node) Kill(ctx context.Context) (readBack string, err error) {
	n.changing.Lock()
	defer n.changing.Unlock()
	return n.end(ctx)
}

// end is Kill for who holds changing.
func (n *node) end(ctx context.Context) (readBack string, err error) {
	back, err := n.box.Kill(ctx)
	if errors.Is(err, proc.ErrEnded) {
		return "", fmt.Errorf("kill %s: it does not run", n.Name)
	}
	n.tell(ctx)
	return back, err
}

// wanted is what a node's container is to be.
type wanted struct {
	role
	disk  *fuse.Disk  // that can be hit; nil: it has none
	data  string      // directory of the engine's machine where it keeps its data; "": in the container
	clock *real.Clock // in this run; nil: nobody changes it
}

// wipe makes it as it was when it was new, and looks whether it is: a master without
// keys and scripts, and the process that we know.
func (n *node) wipe(ctx context.Context) error {
	for _, command := range [][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"CONFIG", "RESETSTAT"}} {
		if _, err := n.Command(ctx, n.Name, command); err != nil {
			return fmt.Errorf("wipe: %w", err)
		}
	}
	info, err := n.Ask(ctx, n.At, "INFO")
	if err != nil {
		return fmt.Errorf("wipe %s: %w", n.Name, err)
	}
	for _, is := range []string{"role:master", "number_of_cached_scripts:0", "run_id:" + n.is.Run} {
		if !strings.Contains(info.Str, "\n"+is+"\r\n") {
			return fmt.Errorf("wipe %s: it is not so that %s", n.Name, is)
		}
	}
	if v, err := n.Ask(ctx, n.At, "DBSIZE"); err != nil || v.Int != 0 {
		return errors.Join(fmt.Errorf("wipe %s: it still has %d keys", n.Name, v.Int), err)
	}
	return nil
}

// makeNode gives the container of a node, or of the resource, and starts it: that
// which is there, wiped, if it will do.
func (s *site) makeNode(ctx context.Context, host int, want wanted) (*node, error) {
	s.mu.Lock()
	n := s.nodes[want.role]
	s.mu.Unlock()
	if n != nil && !want.once && n.Runs() && !n.deaf() && !n.spoiled.Load() && n.wipe(ctx) == nil {
		return n, nil
	}
	if n != nil { // or the last run ended while it was being started again
		if err := s.removeNode(ctx, n); err != nil {
			return nil, err
		}
	}
	settings, err := proc.RedisArgs(want.persist)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", want.name, err)
	}
	at, err := s.takeAddress(ctx, host)
	if err != nil {
		return nil, err
	}
	return s.serve(ctx, at, want, engine.Making{Command: s.command(settings), Name: fmt.Sprintf("%s-%d", want.name, at.host)}, nil)
}

// serve makes the container of a redis-server at an address, with files, and starts it.
func (s *site) serve(ctx context.Context, at *box, want wanted, m engine.Making, files map[string][]byte) (*node, error) {
	makeBox := s.makeBox
	if want.clock != nil {
		makeBox = s.makeTurnable
	}
	m.Image, m.Data, m.Beside = s.software.ref, want.data, at.id
	b, err := makeBox(ctx, want.name, at.host, m)
	if err != nil {
		return nil, err
	}
	n := &node{box: b, site: s, address: at, want: want}
	n.Server = proc.Server{
		Name: want.name, At: net.JoinHostPort(s.net.at(at.host).String(), redisPort), Ask: s.ask,
		Log: func() string { return s.engine.Logs(context.Background(), b.id) },
	}
	s.mu.Lock()
	s.nodes[want.role] = n
	s.mu.Unlock()
	if len(files) > 0 {
		if err := s.engine.Put(ctx, b.id, files); err != nil {
			return nil, fmt.Errorf("configure %s: %w", want.name, err)
		}
	}
	return n, n.begin(ctx)
}

// command starts a redis-server, with settings of its own.
func (s *site) command(settings []string) []string {
	listen := []string{"--bind", "0.0.0.0", "--protected-mode", "no", "--port", redisPort, "--dir", engine.DataDir}
	return slices.Concat([]string{s.software.program}, settings, listen)
}

// removeNode removes a node that is of no more use.
func (s *site) removeNode(ctx context.Context, n *node) error {
	s.mu.Lock()
	delete(s.nodes, n.want.role)
	s.mu.Unlock()
	n.telling.Lock()
	n.removed = true
	n.telling.Unlock()
	if err := n.remove(ctx); err != nil {
		return err
	}
	if n.spoiled.Load() { // or the next node there would find what was done to it
		if err := s.removeAddress(ctx, n.address); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.housed, n.address.host)
	return nil
}

// removeNodes removes all those that are to go, for the next run to make its own.
func (s *site) removeNodes(ctx context.Context, goes func(*node) bool) error {
	s.mu.Lock()
	going := slices.DeleteFunc(slices.Collect(maps.Values(s.nodes)), func(n *node) bool { return !goes(n) })
	s.mu.Unlock()
	return engine.AtOnce(going, func(n *node) error { return s.removeNode(ctx, n) })
}

// vacate sees to it that there are addresses for the nodes of a run.
func (s *site) vacate(ctx context.Context, nodes int) error {
	s.mu.Lock()
	free := firstReplica - firstNode - len(s.housed)
	s.mu.Unlock()
	if free >= nodes {
		return nil
	}
	return s.removeNodes(ctx, func(n *node) bool { return firstNode <= n.address.host && n.address.host < firstReplica })
}

// sentinelConfig is where a sentinel writes what it knows.
const sentinelConfig = engine.DataDir + "/sentinel.conf"

// makeSentinel makes a sentinel that watches nobody yet, for one run.
func (s *site) makeSentinel(ctx context.Context, name string) (*proc.Sentinel, error) {
	var i int
	if _, err := fmt.Sscanf(name, "sentinel%d", &i); err != nil {
		return nil, err
	}
	at, err := s.takeAddress(ctx, firstSentinel+i-1)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{sentinelConfig: []byte(proc.SentinelConfig(s.net.at(at.host).String()))}
	n, err := s.serve(ctx, at, wanted{role: role{name: name, once: true}}, engine.Making{Command: s.command(proc.SentinelArgs(sentinelConfig))}, files)
	if err != nil {
		return nil, err
	}
	return proc.NewSentinel(ctx, n.Redis())
}

// takeAddress gives an address that no node has, at a host or, if that is anyNode, at the first
// that is free of those for nodes: there is one, see vacate.
func (s *site) takeAddress(ctx context.Context, host int) (*box, error) {
	s.mu.Lock()
	if host == anyNode {
		for host = firstNode; s.housed[host]; host++ {
		}
	}
	s.housed[host] = true
	p := s.addresses[host]
	s.mu.Unlock()
	if p != nil && p.Runs() {
		return p, nil
	}
	if p != nil {
		if err := s.removeAddress(ctx, p); err != nil {
			return nil, err
		}
	}
	p, err := s.makeBox(ctx, fmt.Sprintf("address%d", host), host, engine.Making{Command: s.agent(addressAgent), Talks: true})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.addresses[host] = p
	s.mu.Unlock()
	return p, p.start(ctx)
}

func (s *site) removeAddress(ctx context.Context, p *box) error {
	s.mu.Lock()
	delete(s.addresses, p.host)
	s.mu.Unlock()
	return p.remove(ctx)
}

// mountDisks gives a disk to each node whose disk or power the plan hits, below a directory
// of this machine that is bound into the container.
func (c *cluster) mountDisks(s scenario.Scenario) (err error) {
	if slices.ContainsFunc(s.NodeNames(), func(node string) bool { return fuse.Hit(s.Plan, node) }) {
		if c.group, err = proc.NewGroup(os.TempDir()); err != nil {
			return err
		}
	}
	return c.Disks.MountHit(s.Plan, s.NodeNames(), c.group)
}

// lacksDisk says why there can be no disks on this machine that an engine can give to
// containers; both are "" where there can be.
func lacksDisk(e *engine.Engine, a engine.About) (reason, remedy string) {
	if !e.IsHere(a) {
		return "disks are file systems of this process, and the engine may be on another machine", "run lockpick where the engine is"
	}
	if os.Geteuid() != 0 { // or the engine could not look into them
		return "disks are file systems of this process, and only root can let the engine use them", "run as root, or use --backend process"
	}
	if !e.SharesFiles() {
		return "disks are file systems of this process, and the engine sees other files: one of both is in a container", "run lockpick outside of containers, or use --backend process"
	}
	group, err := proc.NewGroup(os.TempDir())
	if err == nil {
		err = group.Close()
	}
	if err != nil {
		return "disks are in a folder of this machine: " + err.Error(), files.Remedy(err, files.TempDirHint)
	}
	return fuse.Missing()
}

// LosePower cuts a node's power, if it is not just being started or ended.
func (c *cluster) LosePower(node string, torn bool) (string, error) {
	if c.Nodes.Server(node) == nil {
		return "", fmt.Errorf("cut the power of %s: there is no such node", node)
	}
	n := c.at(node)
	n.changing.Lock() // before it is off: who starts meanwhile would find a disk without power
	defer n.changing.Unlock()
	return c.Disks.LosePower(node, torn)
}

// lacksClocks says why no clock of a container can be turned on an engine of an
// architecture; "": it can.
func lacksClocks(arch string) (reason, remedy string) {
	remedy = "use an engine on amd64, or the simulation (--backend sim)"
	if err := vdso.Available(); err != nil {
		return "no process can be given a wrong clock: " + err.Error(), remedy
	}
	if arch != "amd64" {
		return "it rewrites machine code of amd64, and the engine's machine is " + arch, remedy
	}
	return "", ""
}

// makeTurnable makes a container whose program waits at a gate.
func (s *site) makeTurnable(ctx context.Context, name string, host int, m engine.Making) (*box, error) {
	files, gate := map[string][]byte(nil), []string{s.client[0]}
	if m.Image != "" {
		files, gate = s.own.apart(gateDir)
	}
	m.Command = slices.Concat(gate, []string{vdso.GateVerb}, m.Command)
	b, err := s.makeBox(ctx, name, host, m)
	if err != nil {
		return nil, err
	}
	if files != nil && !s.software.gated {
		if err := s.engine.Put(ctx, b.id, files); err != nil {
			return nil, fmt.Errorf("put a gate into the container of %s: %w", name, err)
		}
	}
	return b, nil
}

// openGate lets the program of a box through the gate that it was started through, if its clock
// can be changed: by the process, where that can be traced from here, or else from beside.
func (s *site) openGate(ctx context.Context, b *box, k *real.Clock) error {
	if k == nil {
		return nil
	}
	err := fs.ErrPermission
	if pid := b.traceable(); pid > 0 {
		err = k.StartGate(pid)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = s.openBeside(ctx, b, k)
	}
	if err != nil {
		return fmt.Errorf("start %s by clocks that can be turned: %w", b.name, err)
	}
	return nil
}

// traceable is the process of a box, if it is seen from here and its true clock is ours;
// 0: it is not.
func (b *box) traceable() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	ours, _ := os.Readlink("/proc/self/ns/time") // before Linux 5.6 there is one
	theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/time", b.run.process))
	if ours != theirs {
		return 0
	}
	return b.run.process
}

// openBeside opens the gate by an agent in a box beside.
func (s *site) openBeside(ctx context.Context, b *box, k *real.Clock) (err error) {
	if b.beside == nil {
		b.beside, err = s.makeBox(ctx, b.name+"-clock", 0, engine.Making{
			Command: s.agent(clockAgent), Talks: true, Traces: b.id, Capability: "SYS_PTRACE",
		})
		if err != nil {
			return err
		}
	}
	if err := b.beside.startTalking(ctx); err != nil {
		return err
	}
	agent := real.NewCaller(b.beside.talk.in, b.beside.talk.out, nil)
	err = k.StartBeside(agent, 1)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; let the engine's seccomp profile and the Yama of its machine allow ptrace to who has SYS_PTRACE", err)
	}
	if err != nil {
		return fmt.Errorf("%w %s", err, b.beside.Words())
	}
	return nil
}

// turnable lists the nodes and clients whose clocks the scenario may turn.
func turnable(s scenario.Scenario) (names []string) {
	for _, st := range s.Plan {
		if kind, _ := nemesis.KindOf(st.Fault.Kind); kind.Power == nemesis.PowerClock {
			names = append(names, st.Fault.Targets...)
		}
	}
	if s.Random == nil {
		return names
	}
	for _, choice := range s.Random.Choices() {
		switch {
		case choice.Kind.Power != nemesis.PowerClock:
		case choice.On == nemesis.Client:
			names = append(names, s.ClientNames()...)
		default:
			names = append(names, s.NodeNames()...)
		}
	}
	return names
}
