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

// Run starts the servers and links, calls body just after true time zero, and
// takes all down again. On the seed depends what is drawn for messages; clients
// get theirs with their Spec.
func (b *backend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) (err error) {
	if can := b.canRun(); !can.Available {
		return fmt.Errorf("run: %s; to fix it: %s", can.Reason, can.Remedy)
	}
	if err := enough(s); err != nil {
		return err
	}
	group, err := proc.NewGroup(b.cfg.Dir)
	if err != nil {
		return err
	}
	c := b.newCluster(ctx, seed, group, rec)
	defer func() { err = errors.Join(err, c.close()) }() // after a panic in body, too
	explain := interfered(group, harness.SettingUp, c.Fail)
	if err := c.setUp(ctx, s); err != nil {
		return explain(err)
	}
	return body(c.Ctx, c)
}

// setUp starts all that a run has before its clients.
func (c *cluster) setUp(ctx context.Context, s scenario.Scenario) error {
	if needsClocks(s) {
		c.setClocks(s)
	}
	if err := c.Disks.MountHit(s.Plan, s.NodeNames(), c.group); err != nil {
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
	c.network.Addr, c.network.Down, c.network.Mute, c.network.Go = c.addr, c.down, c.mute, c.Timeline.Go
	c.Links, c.Start = c.network, c.startChild
	return c
}

// redisOf are the nodes that are redis-servers.
func redisOf(s scenario.Scenario) []string {
	if s.Topology.Server != "" {
		return nil
	}
	return s.NodeNames()
}

// startStore starts the nodes that are members of a store, where they are.
func (c *cluster) startStore(ctx context.Context, s scenario.Scenario) error {
	if s.Topology.Server == "" {
		return nil
	}
	of, err := proc.StoreOf(s.Topology.Server)
	if err != nil {
		return err
	}
	if err := repeated(func() (err error) { c.Version, err = of.AskVersion(ctx); return err }); err != nil {
		return err
	}
	all, err := c.group.StartStore(c.Ctx, of, s.NodeNames())
	if err != nil {
		return err
	}
	for _, m := range all {
		c.Serve(m.Name, m)
		c.Servers = append(c.Servers, m)
	}
	c.network.Store = &of
	return nil
}

// startServers starts the resource, the nodes and their replicas, all at once.
func (c *cluster) startServers(s scenario.Scenario) error {
	failed := c.StartServers(s, redisOf(s), func(r real.Role) (real.Server, error) {
		return c.group.StartRedis(c.Ctx, r.Name, c.cfg.RedisServer, r.Persistence)
	})
	if len(failed) == 0 {
		return nil
	}
	if c.Ctx.Err() != nil { // somebody ended the run, and nothing is wrong with the program
		return failed[0]
	}
	// What stops one stops them all: one is enough to read.
	program, err := exec.LookPath(c.cfg.RedisServer)
	if err != nil {
		program = c.cfg.RedisServer
	}
	return fmt.Errorf("%w\n%d of %d servers did not start; try %s --port 0 by hand, and whether %s has room",
		failed[0], len(failed), len(failed)+len(c.Servers), program, filepath.Dir(c.group.Dir))
}

// spareFiles is what servers, logs and questions to servers take for a moment.
const spareFiles = 16

// enough sees that this process may have the files open that a run takes at least: for
// each link where it listens, and both ends of one connection; and two pipes for each
// client. A run that begins and finds too few later ends as one that could not be run, too,
// but first starts hundreds of processes.
func enough(s scenario.Scenario) error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	var limit syscall.Rlimit // Go has raised it as far as it may
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	need := len(open) + spareFiles
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
	return fmt.Errorf("start %d clients with links to %d nodes: that takes %d open files or more, and this process may have %d: %w",
		len(s.Clients), nodes, need, limit.Cur, syscall.EMFILE)
}

// trialBound is how long a server may take to start that nothing contends with.
const trialBound = 5 * time.Second

// trials is how often a probe is tried if its failure says nothing about the machine.
const trials = 3

// try tries something for a moment, and leaves nothing of it.
func (b *backend) try(ctx context.Context, do func(context.Context, *proc.Group) error) error {
	return repeated(func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, trialBound)
		defer cancel()
		ctx, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		group, err := proc.NewGroup(b.cfg.Dir)
		if err != nil {
			return err
		}
		explain := interfered(group, "while the machine was tried", fail)
		defer func() { err = errors.Join(err, group.Close()) }()
		if err := do(ctx, group); err != nil {
			return explain(err)
		}
		return nil
	})
}

// repeated repeats what failed for a reason that will pass. If it fails each time, the error is
// unsettled.
func repeated(try func() error) (err error) {
	for range trials {
		if err = try(); err == nil || !passes(err) {
			return err
		}
	}
	return unsettled{err}
}

// passes reports whether an error is temporary: somebody disturbed a process, or the machine is too
// busy. It then says nothing about what the machine can do.
func passes(err error) bool {
	if _, ok := errors.AsType[*harness.Interference](err); ok {
		return true
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		is, ok := exit.Sys().(syscall.WaitStatus)
		return ok && is.Signaled()
	}
	return false
}

// unsettled is the error of a trial that says nothing about the machine.
type unsettled struct{ error }

func (u unsettled) Error() string { return "this could not be found out: " + u.error.Error() }
func (u unsettled) Unwrap() error { return u.error }

// unknown reports whether a trial failed for a reason other than that the machine lacks something.
func unknown(err error) bool {
	_, ok := errors.AsType[unsettled](err)
	return ok || files.Remedy(err, files.TempDirHint) != ""
}

// own lists the capabilities that depend on the machine. Each is tried.
func (b *backend) own(ctx context.Context) map[string]harness.Capability {
	disks, clocks := b.canMount(), b.canTurnClocks()
	own := map[string]harness.Capability{
		fuse.LosesPower: disks, fuse.HitsDisks: disks, scenario.CanTellLife: b.canTell(ctx), watches: b.canWatch(ctx),
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

// tried turns the error of a trial into a capability. otherwise is the remedy where the error has none.
func tried(err error, otherwise string) harness.Capability {
	if err == nil {
		return harness.Capability{Available: true}
	}
	return harness.Capability{Reason: telling(err), Remedy: remedy(err, otherwise), Unknown: unknown(err)}
}

func prefixed(prefix string, c harness.Capability) harness.Capability {
	if !c.Available {
		c.Reason = prefix + c.Reason
	}
	return c
}

// blamed is tried for a program: what it can't do stands before the reason, unless the trial shows nothing
// about it.
func blamed(err error, what, otherwise string) harness.Capability {
	c := tried(err, otherwise)
	if !c.Available && !c.Unknown {
		c.Reason = what + ": " + strings.TrimSuffix(c.Reason, ":")
	}
	return c
}

// canMount tries a disk: whether a user may mount one, nothing but a mount tells.
func (b *backend) canMount() harness.Capability {
	if reason, remedy := fuse.Missing(); reason != "" {
		return harness.Capability{Reason: reason, Remedy: remedy}
	}
	return tried(b.try(context.Background(), func(_ context.Context, group *proc.Group) error {
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

// watches needs a redis-server that can be a sentinel. One that is built without knows no such mode.
var watches = nemesis.Capability(nemesis.PowerSentinel, nemesis.Node)

func (b *backend) canWatch(ctx context.Context) harness.Capability {
	err := b.try(ctx, func(ctx context.Context, group *proc.Group) error {
		_, err := group.StartSentinel(ctx, "trial", b.cfg.RedisServer)
		return err
	})
	return blamed(err, b.cfg.RedisServer+" can't be a sentinel",
		"apt-get install redis-server, whose program is redis-sentinel as well, and see that it comes first on PATH")
}

// canTell says whether nodes tell of their keys. Runs do without.
func (b *backend) canTell(ctx context.Context) harness.Capability {
	err := b.try(ctx, func(ctx context.Context, group *proc.Group) error {
		r, err := group.StartRedis(ctx, "trial", b.cfg.RedisServer, "none")
		if err != nil {
			return err
		}
		lives := keylife.New(keylife.Config{Clock: proc.TrueClock, Ours: proc.Asked, Record: func(history.Event) {}})
		return errors.Join(lives.Watch(map[string]string{"trial": r.Addr()}), lives.Close())
	})
	return prefixed("causes come from what clients saw alone: ", tried(err, "use Redis 7.0 or later that allows CONFIG and MONITOR"))
}

func (b *backend) canTurnClocks() harness.Capability {
	otherwise, err := "use the simulation (--backend sim)", vdso.Available()
	if err != nil {
		otherwise = "run it on Linux on amd64, or in the simulation (--backend sim)"
	} else if err = b.try(context.Background(), dateAhead); errors.Is(err, fs.ErrPermission) {
		otherwise = "allow ptrace: in a container run it with --cap-add SYS_PTRACE and a seccomp profile that lets it pass; otherwise sysctl kernel.yama.ptrace_scope=1"
	}
	return prefixed("no process can be given a wrong clock: ", tried(err, otherwise))
}

// remedy is what to do about the error of a trial, or else otherwise.
func remedy(err error, otherwise string) string {
	if _, ok := errors.AsType[unsettled](err); ok {
		otherwise = "try again, when nobody ends or stops lockpick's processes and the machine is less busy"
	}
	return cmp.Or(files.Remedy(err, files.TempDirHint), otherwise)
}

// trust looks at what the program says of itself, and sees that it answers PING under its own process
// id: anything can be called redis-server.
func (b *backend) trust(ctx context.Context) harness.Capability {
	program, err := exec.LookPath(b.cfg.RedisServer)
	if err == nil {
		err = repeated(func() error { _, err := b.Version(ctx); return err })
	}
	if err == nil {
		err = b.try(ctx, func(ctx context.Context, group *proc.Group) error {
			if _, err := group.StartRedis(ctx, "trial", b.cfg.RedisServer, "none"); err != nil {
				return fmt.Errorf("it does not answer PING: %w", err)
			}
			return nil
		})
	}
	c := blamed(err, program+" is no redis-server that runs here", "apt-get install redis-server, and see that it comes first on PATH")
	c.Name = harness.CanRun
	return c
}

// telling is the line of an error, with a server's log in it, that says what the machine is
// short of, or else the first.
func telling(err error) string {
	for line := range strings.Lines(err.Error()) {
		if files.Remedy(errors.New(line), "") != "" {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}
