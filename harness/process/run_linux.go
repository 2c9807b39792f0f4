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

// Run starts the servers and links, calls body just after true time zero, and takes everything down
// afterwards. The seed determines what is drawn for messages. Clients get their seed in their Spec.
func (b *backend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) (err error) {
	if can := b.canRun(); !can.Available {
		return fmt.Errorf("run: %s; to fix it: %s", can.Reason, can.Remedy)
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
	if err := c.Disks.MountTargeted(s.Plan, s.NodeNames(), c.group); err != nil {
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
	c.network.Addr, c.network.Down, c.network.Unresponsive, c.network.Go = c.addr, c.down, c.unresponsive, c.Timeline.Go
	c.Links, c.Start = c.network, c.startChild
	return c
}

// redisNodes lists the nodes that are redis-servers.
func redisNodes(s scenario.Scenario) []string {
	if s.Topology.Server != "" {
		return nil
	}
	return s.NodeNames()
}

// startStore starts the nodes that are members of another store, if any.
func (c *cluster) startStore(ctx context.Context, s scenario.Scenario) error {
	if s.Topology.Server == "" {
		return nil
	}
	of, err := proc.StoreOf(s.Topology.Server)
	if err != nil {
		return err
	}
	if err := retryTransient(func() (err error) { c.Version, err = of.AskVersion(ctx); return err }); err != nil {
		return err
	}
	all, err := c.group.StartStore(c.Ctx, of, s.NodeNames())
	if err != nil {
		return err
	}
	for _, m := range all {
		c.SetMaster(m.Name, m)
		c.Servers = append(c.Servers, m)
	}
	c.network.Store = &of
	return nil
}

// startServers starts the resource, the nodes and their replicas concurrently.
func (c *cluster) startServers(s scenario.Scenario) error {
	failed := c.StartServers(s, redisNodes(s), func(r real.Role) (real.Server, error) {
		return c.group.StartRedis(c.Ctx, r.Name, c.cfg.RedisServer, r.Persistence)
	})
	if len(failed) == 0 {
		return nil
	}
	if c.Ctx.Err() != nil { // the run was canceled, so the program is not to blame
		return failed[0]
	}
	// They all fail for the same reason, so showing one error is enough.
	program, err := exec.LookPath(c.cfg.RedisServer)
	if err != nil {
		program = c.cfg.RedisServer
	}
	return fmt.Errorf("%w\n%d of %d servers did not start; try %s --port 0 by hand, and check that %s has space left",
		failed[0], len(failed), len(failed)+len(c.Servers), program, filepath.Dir(c.group.Dir))
}

// extraFiles is the number of files that servers, logs and requests to servers need temporarily.
const extraFiles = 16

// checkFileLimit checks that this process may open the minimum number of files that a run needs:
// for each link a listener and both ends of one connection, and for each client two pipes. A run
// that hits the limit later fails in the same way, but only after starting hundreds of processes.
func checkFileLimit(s scenario.Scenario) error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	var limit syscall.Rlimit // Go has already raised it to the maximum
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	need := len(open) + extraFiles
	nodes := len(s.NodeNames())
	for _, c := range s.Clients {
		reached := nodes
		if c.Reach != nil {
			reached = len(c.Reach)
		}
		need += nodes + 1 + 2*(reached+1) + 2
	}
	if uint64(need) <= limit.Cur {
		return nil
	}
	return fmt.Errorf("start %d clients with links to %d nodes: this needs at least %d open files, but the process may have only %d: %w",
		len(s.Clients), nodes, need, limit.Cur, syscall.EMFILE)
}

// trialTimeout is how long a server may take to start when nothing else is running.
const trialTimeout = 5 * time.Second

// maxTrials is how often a probe is tried if its failure says nothing about the machine.
const maxTrials = 3

// onTrial tries something for a moment and leaves nothing behind.
func (b *backend) onTrial(ctx context.Context, do func(context.Context, *proc.Group) error) error {
	return retryTransient(func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, trialTimeout)
		defer cancel()
		ctx, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		group, err := proc.NewGroup(b.cfg.Dir)
		if err != nil {
			return err
		}
		explain := watchInterference(group, "while the machine was being probed", fail)
		defer func() { err = errors.Join(err, group.Close()) }()
		if err := do(ctx, group); err != nil {
			return explain(err)
		}
		return nil
	})
}

// retryTransient repeats what failed for a transient reason. If it fails each time, the error is
// inconclusive.
func retryTransient(f func() error) (err error) {
	for range maxTrials {
		if err = f(); err == nil || !isTransient(err) {
			return err
		}
	}
	return inconclusiveError{err}
}

// isTransient reports whether an error is transient: somebody disturbed a process, or the machine
// is too busy. It then says nothing about what the machine can do.
func isTransient(err error) bool {
	if _, ok := errors.AsType[*harness.Interference](err); ok {
		return true
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		is, ok := exit.Sys().(syscall.WaitStatus)
		return ok && is.Signaled()
	}
	return false
}

// inconclusiveError is the error of a trial that says nothing about the machine.
type inconclusiveError struct{ error }

func (u inconclusiveError) Error() string { return "this check was inconclusive: " + u.error.Error() }
func (u inconclusiveError) Unwrap() error { return u.error }

// isUnknown reports whether a trial failed for a reason other than a missing capability.
func isUnknown(err error) bool {
	_, ok := errors.AsType[inconclusiveError](err)
	return ok || files.Remedy(err, files.TempDirHint) != ""
}

// machineCapabilities lists the capabilities that depend on the machine. Each is tried.
func (b *backend) machineCapabilities(ctx context.Context) map[string]harness.Capability {
	disks, clocks := b.canMount(), b.canTurnClocks()
	own := map[string]harness.Capability{
		fuse.PowerLoss: disks, fuse.DiskFaults: disks, scenario.CanReportKeyLife: b.canReportKeys(ctx), sentinelCapability: b.canRunSentinel(ctx),
	}
	for _, name := range real.ClockPowers {
		own[name] = clocks
	}
	for _, s := range proc.Stores {
		if _, err := exec.LookPath(s.Program); err != nil {
			own[s.Name] = harness.Capability{Reason: s.Program + " is not on PATH", Remedy: s.Remedy}
		}
	}
	return own
}

// capabilityFrom converts the error of a trial to a capability. otherwise is the remedy if the
// error has none.
func capabilityFrom(err error, otherwise string) harness.Capability {
	if err == nil {
		return harness.Capability{Available: true}
	}
	return harness.Capability{Reason: mainLine(err), Remedy: remedy(err, otherwise), Unknown: isUnknown(err)}
}

func prefixed(prefix string, c harness.Capability) harness.Capability {
	if !c.Available {
		c.Reason = prefix + c.Reason
	}
	return c
}

// programCapability is like capabilityFrom for a program. The reason begins with what the program
// can't do, unless the trial shows nothing about it.
func programCapability(err error, what, otherwise string) harness.Capability {
	c := capabilityFrom(err, otherwise)
	if !c.Available && !c.Unknown {
		c.Reason = what + ": " + strings.TrimSuffix(c.Reason, ":")
	}
	return c
}

// canMount mounts a disk on trial, because only that shows whether the user may.
func (b *backend) canMount() harness.Capability {
	if reason, remedy := fuse.Missing(); reason != "" {
		return harness.Capability{Reason: reason, Remedy: remedy}
	}
	return capabilityFrom(b.onTrial(context.Background(), func(_ context.Context, group *proc.Group) error {
		at := group.DataDir("trial")
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		d, err := fuse.Mount(at)
		if err == nil {
			group.Cleanup(d.Unmount)
		}
		return err
	}), fuse.Remedy)
}

// sentinelCapability needs a redis-server that can be a sentinel. Some builds don't have that mode.
var sentinelCapability = nemesis.Capability(nemesis.PowerSentinel, nemesis.Node)

func (b *backend) canRunSentinel(ctx context.Context) harness.Capability {
	err := b.onTrial(ctx, func(ctx context.Context, group *proc.Group) error {
		_, err := group.StartSentinel(ctx, "trial", b.cfg.RedisServer)
		return err
	})
	return programCapability(err, b.cfg.RedisServer+" can't be a sentinel",
		"apt-get install redis-server, whose program can also be redis-sentinel, and make sure it comes first on PATH")
}

// canReportKeys reports whether nodes report the lives of their keys. Runs work without it.
func (b *backend) canReportKeys(ctx context.Context) harness.Capability {
	err := b.onTrial(ctx, func(ctx context.Context, group *proc.Group) error {
		r, err := group.StartRedis(ctx, "trial", b.cfg.RedisServer, "none")
		if err != nil {
			return err
		}
		lives := keylife.New(keylife.Config{Clock: proc.TrueClock, FromHarness: proc.AskedFrom, Record: func(history.Event) {}})
		return errors.Join(lives.Watch(map[string]string{"trial": r.Addr()}), lives.Close())
	})
	return prefixed("causes are derived only from what clients saw: ", capabilityFrom(err, "use Redis 7.0 or later with CONFIG and MONITOR allowed"))
}

func (b *backend) canTurnClocks() harness.Capability {
	otherwise, err := "use the simulation (--backend sim)", vdso.Available()
	if err != nil {
		otherwise = "run it on Linux on amd64, or in the simulation (--backend sim)"
	} else if err = b.onTrial(context.Background(), checkDateClock); errors.Is(err, fs.ErrPermission) {
		otherwise = "allow ptrace: in a container, use --cap-add SYS_PTRACE and a seccomp profile that allows it; otherwise sysctl kernel.yama.ptrace_scope=1"
	}
	return prefixed("clocks of processes can't be changed: ", capabilityFrom(err, otherwise))
}

// remedy returns how to fix the error of a trial, or otherwise if it has no remedy of its own.
func remedy(err error, otherwise string) string {
	if _, ok := errors.AsType[inconclusiveError](err); ok {
		otherwise = "retry while nobody ends or stops lockpick's processes and the machine is less busy"
	}
	return cmp.Or(files.Remedy(err, files.TempDirHint), otherwise)
}

// checkServer checks the version that the program reports, and that it answers PING with its own
// process id, because any program can be named redis-server.
func (b *backend) checkServer(ctx context.Context) harness.Capability {
	program, err := exec.LookPath(b.cfg.RedisServer)
	if err == nil {
		err = retryTransient(func() error { _, err := b.Version(ctx); return err })
	}
	if err == nil {
		err = b.onTrial(ctx, func(ctx context.Context, group *proc.Group) error {
			if _, err := group.StartRedis(ctx, "trial", b.cfg.RedisServer, "none"); err != nil {
				return fmt.Errorf("it does not answer PING: %w", err)
			}
			return nil
		})
	}
	c := programCapability(err, program+" is not a working redis-server", "apt-get install redis-server, and make sure it comes first on PATH")
	c.Name = harness.CanRun
	return c
}

// mainLine returns the line of an error, which may include a server's log, that names a resource
// the machine is short of, or else the first line.
func mainLine(err error) string {
	for line := range strings.Lines(err.Error()) {
		if files.Remedy(errors.New(line), "") != "" {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}
