package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real"
	"lockpick/harness/real/fuse"
	"lockpick/harness/real/keylife"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/nemesis"
)

// Run starts the servers and links, calls body just after true time zero, and tears everything down
// afterward. The seed determines the random choices for messages. Clients get the seed in their
// Spec.
func (b *backend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) (err error) {
	if capability := b.probeRun(); !capability.Available {
		return fmt.Errorf("run: %s; to fix it: %s", capability.Reason, capability.Remedy)
	}
	if err := checkFileLimit(s); err != nil {
		return err
	}
	group, err := proc.NewGroup(b.cfg.Dir)
	if err != nil {
		return err
	}
	c := b.newCluster(ctx, seed, group, rec)
	defer func() { err = errors.Join(err, c.close()) }() // also after a panic in body
	explain := watchInterference(group, harness.DuringSetup, c.Fail)
	if err := c.setUp(ctx, s); err != nil {
		return explain(err)
	}
	return body(c.Ctx, c)
}

// setUp starts everything that a run needs before its clients start.
func (c *cluster) setUp(ctx context.Context, s scenario.Scenario) error {
	if needsClocks(s) {
		c.setClocks(s)
	}
	if err := c.Disks.MountForFaults(s.Plan, s.NodeNames(), c.group); err != nil {
		return err
	}
	if err := c.startServers(s); err != nil {
		return err
	}
	if err := c.startStore(ctx, s); err != nil {
		return err
	}
	if err := c.network.Open(s.NodeNames(), s.Clients); err != nil {
		return err
	}
	err := c.SetUp(s, func(name string) (*proc.Sentinel, error) {
		return c.group.StartSentinel(c.Ctx, name, c.cfg.RedisServer)
	})
	if err != nil {
		return err
	}
	if err := c.startAdapters(s); err != nil {
		return err
	}
	return c.Begin()
}

func (b *backend) newCluster(ctx context.Context, seed uint64, group *proc.Group, rec *history.Recorder) *cluster {
	c := &cluster{Run: real.New(ctx, rec), cfg: b.cfg, group: group}
	c.network = real.NewNetwork(c.Ctx, seed, c.Now, rec.Record)
	c.network.Addr, c.network.IsDown, c.network.IsUnresponsive, c.network.Go = c.addr, c.isDown, c.isUnresponsive, c.Timeline.Go
	c.Links, c.NewClient = c.network, c.startChild
	return c
}

// redisNodes returns the nodes that run redis-server: all of them, or none if the topology has
// another store.
func redisNodes(s scenario.Scenario) []string {
	if s.Topology.Server != "" {
		return nil
	}
	return s.NodeNames()
}

// startStore starts the nodes as members of another store, if the topology has one.
func (c *cluster) startStore(ctx context.Context, s scenario.Scenario) error {
	if s.Topology.Server == "" {
		return nil
	}
	store, err := proc.StoreOf(s.Topology.Server)
	if err != nil {
		return err
	}
	if err := retryTransient(func() (err error) { c.Version, err = store.AskVersion(ctx); return err }); err != nil {
		return err
	}
	members, err := c.group.StartStore(c.Ctx, store, s.NodeNames())
	if err != nil {
		return err
	}
	for _, m := range members {
		c.SetMaster(m.Name, m)
		c.Servers = append(c.Servers, m)
	}
	c.network.Store = &store
	return nil
}

// startServers starts the resource, the nodes and their replicas concurrently.
func (c *cluster) startServers(s scenario.Scenario) error {
	errs := c.StartServers(s, redisNodes(s), func(r real.Role) (real.Server, error) {
		return c.group.StartRedis(c.Ctx, r.Name, c.cfg.RedisServer, r.Persistence)
	})
	if len(errs) == 0 {
		return nil
	}
	if c.Ctx.Err() != nil { // the run was canceled, so there is nothing to fix
		return errs[0]
	}
	// Usually all servers fail for the same reason, so one error is enough.
	program, err := exec.LookPath(c.cfg.RedisServer)
	if err != nil {
		program = c.cfg.RedisServer
	}
	return fmt.Errorf("%w\n%d of %d servers did not start; try %s --port 0 by hand, and check that %s has space left",
		errs[0], len(errs), len(errs)+len(c.Servers), program, filepath.Dir(c.group.Dir))
}

// extraFiles is the number of files that servers, their logs and requests to them need to open
// temporarily during startup.
const extraFiles = 16

// checkFileLimit checks that this process may open as many files as a run needs: for each link, a
// listener and both ends of a connection; for each client, two pipes. Without the check, the run
// would fail only after starting hundreds of processes.
func checkFileLimit(s scenario.Scenario) error {
	openFiles, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	var limit syscall.Rlimit // Go has already raised it to the maximum
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	numNeeded := len(openFiles) + extraFiles
	nodes := len(s.NodeNames())
	for _, c := range s.Clients {
		numReached := nodes
		if c.Reach != nil {
			numReached = len(c.Reach)
		}
		numNeeded += nodes + 1 + 2*(numReached+1) + 2
	}
	if uint64(numNeeded) <= limit.Cur {
		return nil
	}
	return fmt.Errorf("start %d clients with links to %d nodes: this needs at least %d open files, but the process may have only %d: %w",
		len(s.Clients), nodes, numNeeded, limit.Cur, syscall.EMFILE)
}

// trialTimeout limits the duration of a trial. It must be long enough to start a server while
// nothing else is running.
const trialTimeout = 5 * time.Second

// maxTrials is the maximum number of times a trial is made if it fails for transient reasons.
const maxTrials = 3

// runTrial calls do to find out whether something works on this machine. Afterward, it ends all
// processes that do started in the group. It repeats the trial if it fails for a transient reason.
func (b *backend) runTrial(ctx context.Context, do func(context.Context, *proc.Group) error) error {
	return retryTransient(func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, trialTimeout)
		defer cancel()
		ctx, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		group, err := proc.NewGroup(b.cfg.Dir)
		if err != nil {
			return err
		}
		explain := watchInterference(group, "while probing the machine", fail)
		defer func() { err = errors.Join(err, group.Close()) }()
		if err := do(ctx, group); err != nil {
			return explain(err)
		}
		return nil
	})
}

// retryTransient calls f until it succeeds or fails for a reason that is not transient. After
// maxTrials transient failures, the error is an inconclusiveError.
func retryTransient(f func() error) (err error) {
	for range maxTrials {
		if err = f(); err == nil || !isTransient(err) {
			return err
		}
	}
	return inconclusiveError{err}
}

// isTransient reports whether an error has a transient reason, and so says nothing about what the
// machine can do: something interfered with a process, or the machine is too busy.
func isTransient(err error) bool {
	if _, ok := errors.AsType[*harness.Interference](err); ok {
		return true
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status, ok := exit.Sys().(syscall.WaitStatus)
		return ok && status.Signaled()
	}
	return false
}

// inconclusiveError is an error that says nothing about what the machine can do.
type inconclusiveError struct{ error }

func (u inconclusiveError) Error() string { return "this check was inconclusive: " + u.error.Error() }
func (u inconclusiveError) Unwrap() error { return u.error }

// isUnknown reports whether a trial failed without showing if the machine has the capability.
func isUnknown(err error) bool {
	_, ok := errors.AsType[inconclusiveError](err)
	return ok || files.Remedy(err, files.TempDirHint) != ""
}

// machineCapabilities returns the capabilities that depend on the machine, by name. All of them are
// tried, except stores, which only need to be on PATH.
func (b *backend) machineCapabilities(ctx context.Context) map[string]harness.Capability {
	disks, clocks := b.probeMount(), b.probeClocks()
	capabilities := map[string]harness.Capability{
		fuse.PowerLoss: disks, fuse.DiskFaults: disks, scenario.KeyLifeCapability: b.probeKeyReports(ctx), sentinelCapability: b.probeSentinel(ctx),
	}
	for _, name := range real.ClockCapabilities {
		capabilities[name] = clocks
	}
	for _, s := range proc.Stores {
		if _, err := exec.LookPath(s.Program); err != nil {
			capabilities[s.Name] = harness.Capability{Reason: s.Program + " is not on PATH", Remedy: s.Remedy}
		}
	}
	return capabilities
}

// capabilityFrom converts a trial's error to a capability. fallback is the remedy for errors
// without a known remedy.
func capabilityFrom(err error, fallback string) harness.Capability {
	if err == nil {
		return harness.Capability{Available: true}
	}
	return harness.Capability{Reason: mainLine(err), Remedy: remedy(err, fallback), Unknown: isUnknown(err)}
}

func withReasonPrefix(prefix string, c harness.Capability) harness.Capability {
	if !c.Available {
		c.Reason = prefix + c.Reason
	}
	return c
}

// programCapability is like capabilityFrom, but for a program. Unless the trial was inconclusive,
// the reason begins with what, which says what the program can't do.
func programCapability(err error, what, fallback string) harness.Capability {
	c := capabilityFrom(err, fallback)
	if !c.Available && !c.Unknown {
		c.Reason = what + ": " + strings.TrimSuffix(c.Reason, ":")
	}
	return c
}

// probeMount mounts a disk, because only this shows whether the user is allowed to.
func (b *backend) probeMount() harness.Capability {
	if reason, remedy := fuse.Missing(); reason != "" {
		return harness.Capability{Reason: reason, Remedy: remedy}
	}
	return capabilityFrom(b.runTrial(context.Background(), func(_ context.Context, group *proc.Group) error {
		dir := group.DataDir("trial")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		d, err := fuse.Mount(dir)
		if err == nil {
			group.Cleanup(d.Unmount)
		}
		return err
	}), fuse.Remedy)
}

// sentinelCapability is available if redis-server can run as a Sentinel. Some builds can't.
var sentinelCapability = nemesis.Capability(nemesis.SentinelCapability, nemesis.Node)

func (b *backend) probeSentinel(ctx context.Context) harness.Capability {
	err := b.runTrial(ctx, func(ctx context.Context, group *proc.Group) error {
		_, err := group.StartSentinel(ctx, "trial", b.cfg.RedisServer)
		return err
	})
	return programCapability(err, b.cfg.RedisServer+" can't be a sentinel",
		"apt-get install redis-server, whose program can also run as redis-sentinel, and make sure it comes first on PATH")
}

// probeKeyReports checks whether nodes can report changes to their keys. Runs work without these
// reports.
func (b *backend) probeKeyReports(ctx context.Context) harness.Capability {
	err := b.runTrial(ctx, func(ctx context.Context, group *proc.Group) error {
		r, err := group.StartRedis(ctx, "trial", b.cfg.RedisServer, "none")
		if err != nil {
			return err
		}
		lives := keylife.New(keylife.Config{Clock: proc.TrueClock, FromHarness: proc.HasRecentlyAsked, Record: func(history.Event) {}})
		return errors.Join(lives.Watch(map[string]string{"trial": r.Addr()}), lives.Close())
	})
	return withReasonPrefix("causes are derived only from what clients saw: ", capabilityFrom(err, "use Redis 7.0 or later with CONFIG and MONITOR allowed"))
}

func (b *backend) probeClocks() harness.Capability {
	fallback, err := "use the simulation (--backend sim)", vdso.Available()
	if err != nil {
		fallback = "run it on Linux on amd64, or in the simulation (--backend sim)"
	} else if err = b.runTrial(context.Background(), checkDateClock); errors.Is(err, fs.ErrPermission) {
		fallback = "allow ptrace: in a container, use --cap-add SYS_PTRACE and a seccomp profile that allows it; otherwise sysctl kernel.yama.ptrace_scope=1"
	}
	return withReasonPrefix("clocks of processes can't be changed: ", capabilityFrom(err, fallback))
}

// remedy returns the remedy for a trial's error, or fallback if no specific remedy is known.
func remedy(err error, fallback string) string {
	if _, ok := errors.AsType[inconclusiveError](err); ok {
		fallback = "try again when the machine is less busy, and make sure nothing kills or suspends lockpick's processes"
	}
	return cmp.Or(files.Remedy(err, files.TempDirHint), fallback)
}

// checkServer checks that the redis-server program reports its version, starts and answers, because
// any program can be named redis-server.
func (b *backend) checkServer(ctx context.Context) harness.Capability {
	program, err := exec.LookPath(b.cfg.RedisServer)
	if err == nil {
		err = retryTransient(func() error { _, err := b.Version(ctx); return err })
	}
	if err == nil {
		err = b.runTrial(ctx, func(ctx context.Context, group *proc.Group) error {
			if _, err := group.StartRedis(ctx, "trial", b.cfg.RedisServer, "none"); err != nil {
				return fmt.Errorf("it does not answer PING: %w", err)
			}
			return nil
		})
	}
	c := programCapability(err, program+" is not a working redis-server", "apt-get install redis-server, and make sure it comes first on PATH")
	c.Name = harness.RunCapability
	return c
}

// mainLine returns the most informative line of an error, which may include a server's log. This is
// the line that names an exhausted resource, or else the first line.
func mainLine(err error) string {
	for line := range strings.Lines(err.Error()) {
		if files.Remedy(errors.New(line), "") != "" {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}
