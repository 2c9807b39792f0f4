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

// redisPort is the port that each server listens on in its container.
const redisPort = "6379"

// node is a redis-server in a container. If it is killed and restarted, it keeps its address and data.
type node struct {
	proc.Server
	*container
	testbed *testbed
	address *container // shares its network with the node
	spec    nodeSpec

	lifecycle sync.Mutex // locked while the node is started or stopped
	identity  proc.Identity

	linksMu sync.Mutex // locked while the node's state is sent to the links
	removed bool

	unplugged, starved atomic.Bool // now
	everStarved        atomic.Bool // now or earlier
	modified           atomic.Bool // changed in ways that wipe does not undo
}

// role identifies a node in a testbed. The testbed keeps one reusable node for each name and persistence
// mode.
type role struct {
	name, persistence string
	singleUse         bool // the run changes the node in ways that wipe does not undo
}

// updateLinks sends the node's state to the links. If the node is down, the links immediately close
// clients' connections to it, because connecting to an address without a server takes seconds to fail.
func (n *node) updateLinks(ctx context.Context) {
	remote, err := n.testbed.awaitLinks(ctx)
	if err != nil {
		return
	}
	n.linksMu.Lock()
	defer n.linksMu.Unlock()
	if !n.removed { // otherwise, another node may have the address
		remote.SetServerState(ctx, n.HostPort, n.Running(), !n.isUnresponsive()) // fails only if the links have exited, when it does not matter
	}
}

// isUnresponsive reports whether the node may be unable to answer even while it is running, because of a
// fault that does not affect its links.
func (n *node) isUnresponsive() bool {
	return n.Paused() || n.unplugged.Load() || n.starved.Load() || n.spec.disk != nil && n.spec.disk.IsStalled()
}

// WhyUnresponsive returns why the node cannot answer although it runs, or "" if it can answer.
func (n *node) WhyUnresponsive() string {
	switch {
	case n.Paused():
		return "it is paused"
	case n.unplugged.Load():
		return "it is unplugged"
	}
	return ""
}

// lockLifecycle waits until the node is not being started or stopped, and prevents starts and stops until
// done is called. done sends the node's state to the links.
func (n *node) lockLifecycle(ctx context.Context) (done func()) {
	n.lifecycle.Lock()
	return func() {
		n.lifecycle.Unlock()
		n.updateLinks(ctx)
	}
}

func (n *node) Pause(ctx context.Context) (readBack string, err error) {
	defer n.lockLifecycle(ctx)()
	return n.container.Pause(ctx)
}

func (n *node) Resume(ctx context.Context) (readBack string, err error) {
	defer n.updateLinks(ctx)
	return n.container.Resume(ctx)
}

// begin starts the node and returns when it answers.
func (n *node) begin(ctx context.Context) (err error) {
	if err := n.start(ctx); err != nil {
		return err
	}
	if err := n.testbed.openGate(ctx, n.container, n.spec.clock); err != nil {
		return err
	}
	ended := n.Done()
	if n.identity, err = n.Ready(ctx, ended); err != nil {
		return fmt.Errorf("start %s at %s: %w", n.Name, n.HostPort, err)
	}
	n.updateLinks(ctx)
	go func() {
		<-ended
		n.updateLinks(context.WithoutCancel(ctx))
	}()
	return nil
}

// Restart restarts an exited node with the data on its disk. The read-back states which process answers
// and how many keys it has.
func (n *node) Restart(ctx context.Context) (readBack string, err error) {
	if n.unplugged.Load() {
		return "", fmt.Errorf("restart %s: it is unplugged, so lockpick could not confirm a restart", n.Name)
	}
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	if n.Running() {
		return "", fmt.Errorf("restart %s: it is running", n.Name)
	}
	before := n.identity
	if err := n.begin(ctx); err != nil {
		return "", err
	}
	keys, err := n.ConfirmRestart(ctx, before, n.identity)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("container %.12s, %s", n.id, keys), nil
}

// Shutdown shuts the node down cleanly and waits until it has exited.
func (n *node) Shutdown(ctx context.Context) (readBack string, err error) {
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	switch {
	case !n.Running():
		return "", fmt.Errorf("shut %s down: it is not running", n.Name)
	case n.Paused() || n.unplugged.Load():
		return "", fmt.Errorf("shut %s down: it is paused or unplugged and can't receive the command", n.Name)
	}
	if err := n.Server.Shutdown(ctx, n.Done(), n.expectEnd, n.container.End); err != nil {
		return "", err
	}
	n.updateLinks(ctx)
	return fmt.Sprintf("container %.12s shut down cleanly", n.id), nil
}

func (n *node) Kill(ctx context.Context) (readBack string, err error) {
	n.lifecycle.Lock()
	defer n.lifecycle.Unlock()
	return n.end(ctx)
}

// end is Kill for a caller that has locked lifecycle.
func (n *node) end(ctx context.Context) (readBack string, err error) {
	back, err := n.container.Kill(ctx)
	if errors.Is(err, proc.ErrEnded) {
		return "", fmt.Errorf("kill %s: it is not running", n.Name)
	}
	n.updateLinks(ctx)
	return back, err
}

// nodeSpec specifies a node's container.
type nodeSpec struct {
	role
	disk  *fuse.Disk  // faulty disk, or nil
	data  string      // data directory on the engine's machine, or "" for one in the container
	clock *real.Clock // adjustable clock, or nil
}

// wipe resets the node to its initial state. It verifies that the node is a master without keys and
// scripts and still the same process.
func (n *node) wipe(ctx context.Context) error {
	for _, command := range [][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"CONFIG", "RESETSTAT"}} {
		if _, err := n.Command(ctx, n.Name, command); err != nil {
			return fmt.Errorf("wipe: %w", err)
		}
	}
	info, err := n.Ask(ctx, n.HostPort, "INFO")
	if err != nil {
		return fmt.Errorf("wipe %s: %w", n.Name, err)
	}
	for _, is := range []string{"role:master", "number_of_cached_scripts:0", "run_id:" + n.identity.Run} {
		if !strings.Contains(info.Str, "\n"+is+"\r\n") {
			return fmt.Errorf("wipe %s: INFO does not report %s", n.Name, is)
		}
	}
	if v, err := n.Ask(ctx, n.HostPort, "DBSIZE"); err != nil || v.Int != 0 {
		return errors.Join(fmt.Errorf("wipe %s: it still has %d keys", n.Name, v.Int), err)
	}
	return nil
}

// makeNode returns a running node or resource. If possible, it wipes and reuses one from an earlier run.
func (s *testbed) makeNode(ctx context.Context, host int, spec nodeSpec) (*node, error) {
	s.mu.Lock()
	n := s.nodes[spec.role]
	s.mu.Unlock()
	if n != nil && !spec.singleUse && n.Running() && !n.isUnresponsive() && !n.modified.Load() && n.wipe(ctx) == nil {
		return n, nil
	}
	if n != nil {
		if err := s.removeNode(ctx, n); err != nil {
			return nil, err
		}
	}
	settings, err := proc.RedisArgs(spec.persistence)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.name, err)
	}
	at, err := s.assignAddress(ctx, host)
	if err != nil {
		return nil, err
	}
	return s.makeServer(ctx, at, spec, engine.ContainerSpec{Command: s.redisCommand(settings), Name: fmt.Sprintf("%s-%d", spec.name, at.host)}, nil)
}

// makeServer creates a container for a redis-server at an address, copies files into it, and starts it.
func (s *testbed) makeServer(ctx context.Context, address *container, spec nodeSpec, m engine.ContainerSpec, files map[string][]byte) (*node, error) {
	makeContainer := s.makeContainer
	if spec.clock != nil {
		makeContainer = s.makeGatedContainer
	}
	m.Image, m.HostDataDir, m.NetworkOf = s.software.ref, spec.data, address.id
	b, err := makeContainer(ctx, spec.name, address.host, m)
	if err != nil {
		return nil, err
	}
	n := &node{container: b, testbed: s, address: address, spec: spec}
	n.Server = proc.Server{
		Name: spec.name, HostPort: net.JoinHostPort(s.net.addr(address.host).String(), redisPort), Ask: s.ask,
		Log: func() string { return s.engine.Logs(context.Background(), b.id) },
	}
	s.mu.Lock()
	s.nodes[spec.role] = n
	s.mu.Unlock()
	if len(files) > 0 {
		if err := s.engine.Put(ctx, b.id, files); err != nil {
			return nil, fmt.Errorf("configure %s: %w", spec.name, err)
		}
	}
	return n, n.begin(ctx)
}

// redisCommand returns the command line for a redis-server with the given settings.
func (s *testbed) redisCommand(settings []string) []string {
	listen := []string{"--bind", "0.0.0.0", "--protected-mode", "no", "--port", redisPort, "--dir", engine.DataDir}
	return slices.Concat([]string{s.software.program}, settings, listen)
}

func (s *testbed) removeNode(ctx context.Context, n *node) error {
	s.mu.Lock()
	delete(s.nodes, n.spec.role)
	s.mu.Unlock()
	n.linksMu.Lock()
	n.removed = true
	n.linksMu.Unlock()
	if err := n.remove(ctx); err != nil {
		return err
	}
	if n.modified.Load() { // faults may persist at the address, so the next node must not use it
		if err := s.removeAddress(ctx, n.address); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.usedHosts, n.address.host)
	return nil
}

// removeNodes removes the nodes that match returns true for.
func (s *testbed) removeNodes(ctx context.Context, match func(*node) bool) error {
	s.mu.Lock()
	matching := slices.DeleteFunc(slices.Collect(maps.Values(s.nodes)), func(n *node) bool { return !match(n) })
	s.mu.Unlock()
	return engine.Parallel(matching, func(n *node) error { return s.removeNode(ctx, n) })
}

// reserveAddresses makes sure that there are enough free addresses for a run's nodes. If there are not,
// it removes all nodes of earlier runs.
func (s *testbed) reserveAddresses(ctx context.Context, nodes int) error {
	s.mu.Lock()
	free := firstReplica - firstNode - len(s.usedHosts)
	s.mu.Unlock()
	if free >= nodes {
		return nil
	}
	return s.removeNodes(ctx, func(n *node) bool { return firstNode <= n.address.host && n.address.host < firstReplica })
}

// sentinelConfig is the path of a sentinel's state file.
const sentinelConfig = engine.DataDir + "/sentinel.conf"

// makeSentinel creates a sentinel for one run. It does not monitor any master yet.
func (s *testbed) makeSentinel(ctx context.Context, name string) (*proc.Sentinel, error) {
	var i int
	if _, err := fmt.Sscanf(name, "sentinel%d", &i); err != nil {
		return nil, err
	}
	at, err := s.assignAddress(ctx, firstSentinel+i-1)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{sentinelConfig: []byte(proc.SentinelConfig(s.net.addr(at.host).String()))}
	n, err := s.makeServer(ctx, at, nodeSpec{role: role{name: name, singleUse: true}}, engine.ContainerSpec{Command: s.redisCommand(proc.SentinelArgs(sentinelConfig))}, files)
	if err != nil {
		return nil, err
	}
	return proc.NewSentinel(ctx, n.Redis())
}

// assignAddress returns the address container for a host, which must be free. If host is anyHost, it
// chooses the first free host for nodes. reserveAddresses must have made sure that there is one.
func (s *testbed) assignAddress(ctx context.Context, host int) (*container, error) {
	s.mu.Lock()
	if host == anyHost {
		for host = firstNode; s.usedHosts[host]; host++ {
		}
	}
	s.usedHosts[host] = true
	p := s.addresses[host]
	s.mu.Unlock()
	if p != nil && p.Running() {
		return p, nil
	}
	if p != nil {
		if err := s.removeAddress(ctx, p); err != nil {
			return nil, err
		}
	}
	p, err := s.makeContainer(ctx, fmt.Sprintf("address%d", host), host, engine.ContainerSpec{Command: s.agentCommand(addressAgent), Attached: true})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.addresses[host] = p
	s.mu.Unlock()
	return p, p.start(ctx)
}

func (s *testbed) removeAddress(ctx context.Context, p *container) error {
	s.mu.Lock()
	delete(s.addresses, p.host)
	s.mu.Unlock()
	return p.remove(ctx)
}

// mountDisks mounts a disk for each node with disk or power faults in the plan, in a directory on this
// machine. Containers bind-mount the disks.
func (c *cluster) mountDisks(s scenario.Scenario) (err error) {
	if slices.ContainsFunc(s.NodeNames(), func(node string) bool { return fuse.HasFaults(s.Plan, node) }) {
		if c.group, err = proc.NewGroup(os.TempDir()); err != nil {
			return err
		}
	}
	return c.Disks.MountForFaults(s.Plan, s.NodeNames(), c.group)
}

// diskUnsupported returns why this machine cannot provide faulty disks to the engine's containers, and a
// remedy. Both are "" if it can.
func diskUnsupported(e *engine.Engine, a engine.About) (reason, remedy string) {
	if !e.IsLocal(a) {
		return "faulty disks are file systems of the lockpick process, and the engine may be on another machine", "run lockpick on the engine's machine"
	}
	if os.Geteuid() != 0 { // FUSE hides other users' mounts from the engine
		return "faulty disks are file systems of the lockpick process, and only root can share them with the engine", "run as root, or use --backend process"
	}
	if !e.SharesFiles() {
		return "faulty disks are file systems of the lockpick process, and the engine sees other files, because lockpick or the engine runs in a container", "run lockpick outside containers, or use --backend process"
	}
	group, err := proc.NewGroup(os.TempDir())
	if err == nil {
		err = group.Close()
	}
	if err != nil {
		return "faulty disks require a directory on this machine: " + err.Error(), files.Remedy(err, files.TempDirHint)
	}
	return fuse.Missing()
}

// LosePower cuts a node's power. If the node is being started or stopped, it waits first.
func (c *cluster) LosePower(node string, torn bool) (string, error) {
	if c.Nodes.Server(node) == nil {
		return "", fmt.Errorf("cut the power of %s: there is no such node", node)
	}
	n := c.nodeByName(node)
	n.lifecycle.Lock() // a start during the power loss would find a disk without power
	defer n.lifecycle.Unlock()
	return c.Disks.LosePower(node, torn)
}

// clocksUnsupported returns why containers' clocks cannot be changed on an engine with the given
// architecture, and a remedy. Both are "" if they can.
func clocksUnsupported(arch string) (reason, remedy string) {
	remedy = "use an engine on amd64, or the simulation (--backend sim)"
	if err := vdso.Available(); err != nil {
		return "no process's clock can be changed: " + err.Error(), remedy
	}
	if arch != "amd64" {
		return "changing clocks rewrites amd64 machine code, and the engine's architecture is " + arch, remedy
	}
	return "", ""
}

// makeGatedContainer creates a container whose program starts through a gate.
func (s *testbed) makeGatedContainer(ctx context.Context, name string, host int, m engine.ContainerSpec) (*container, error) {
	files, gate := map[string][]byte(nil), []string{s.clientCommand[0]}
	if m.Image != "" {
		files, gate = s.ownImage.standaloneFiles(gateDir)
	}
	m.Command = slices.Concat(gate, []string{vdso.GateVerb}, m.Command)
	b, err := s.makeContainer(ctx, name, host, m)
	if err != nil {
		return nil, err
	}
	if files != nil && !s.software.hasGate {
		if err := s.engine.Put(ctx, b.id, files); err != nil {
			return nil, fmt.Errorf("put a gate into the container of %s: %w", name, err)
		}
	}
	return b, nil
}

// openGate opens the gate of a container with an adjustable clock, so that the program starts. It does
// nothing if clock is nil. If this process cannot trace the program, a sidecar opens the gate.
func (s *testbed) openGate(ctx context.Context, b *container, clock *real.Clock) error {
	if clock == nil {
		return nil
	}
	err := fs.ErrPermission
	if pid := b.traceablePID(); pid > 0 {
		err = clock.StartGate(pid)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = s.openFromSidecar(ctx, b, clock)
	}
	if err != nil {
		return fmt.Errorf("start %s with adjustable clocks: %w", b.name, err)
	}
	return nil
}

// traceablePID returns the PID of a container's process, or 0 if this process cannot see it or its
// CLOCK_MONOTONIC differs from ours.
func (b *container) traceablePID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	ours, _ := os.Readlink("/proc/self/ns/time") // Linux before 5.6 has no time namespaces
	theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/time", b.run.pid))
	if ours != theirs {
		return 0
	}
	return b.run.pid
}

// openFromSidecar opens the gate with an agent in a sidecar container.
func (s *testbed) openFromSidecar(ctx context.Context, b *container, clock *real.Clock) (err error) {
	if b.sidecar == nil {
		b.sidecar, err = s.makeContainer(ctx, b.name+"-clock", 0, engine.ContainerSpec{
			Command: s.agentCommand(clockAgent), Attached: true, ProcessesOf: b.id, Capability: "SYS_PTRACE",
		})
		if err != nil {
			return err
		}
	}
	if err := b.sidecar.startAttached(ctx); err != nil {
		return err
	}
	agent := real.NewCaller(b.sidecar.stdio.in, b.sidecar.stdio.out, nil)
	err = clock.StartWithAgent(agent, 1)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; configure the engine's seccomp profile and Yama on its machine to allow ptrace with SYS_PTRACE", err)
	}
	if err != nil {
		return fmt.Errorf("%w %s", err, b.sidecar.StderrTail())
	}
	return nil
}

// adjustableClocks lists the nodes and clients whose clocks the scenario may change.
func adjustableClocks(s scenario.Scenario) (names []string) {
	for _, st := range s.Plan {
		if kind, _ := nemesis.KindOf(st.Fault.Kind); kind.CapabilityName == nemesis.ClockCapability {
			names = append(names, st.Fault.Targets...)
		}
	}
	if s.Random == nil {
		return names
	}
	for _, choice := range s.Random.Choices() {
		switch {
		case choice.Kind.CapabilityName != nemesis.ClockCapability:
		case choice.TargetType == nemesis.Client:
			names = append(names, s.ClientNames()...)
		default:
			names = append(names, s.NodeNames()...)
		}
	}
	return names
}
