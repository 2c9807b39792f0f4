// Package process is the backend of real processes: redis-servers or members of another store,
// clients, and the links between them, on this machine and in real time.
//
// Its main types are Backend, which sets up a run and takes it down, and cluster, a run on this
// machine's processes. Each client is a subprocess (child.go).
//
// Interference with a process by others is recorded, because the kernel notifies the parent
// (child.go).
//
// Deliberately missing: the client's program (package client) and the meaning of faults (package
// nemesis). It needs Linux.
package process

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"

	"lockpick/harness"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Config is the configuration of a backend. The zero value is ready to be probed.
type Config struct {
	Self        []string // command that starts a client
	Adapter     []string // command of the adapter program, for locks of kind exec; see package lock/exec
	RedisServer string   // program; "": redis-server on PATH
	Dir         string   // parent of a run's temporary directory; "": the system's
}

// backend runs scenarios with real processes.
type backend struct{ cfg Config }

var _ harness.Backend = (*backend)(nil)

// New returns a backend.
func New(cfg Config) *backend {
	if cfg.RedisServer == "" {
		cfg.RedisServer = "redis-server"
	}
	if cfg.Dir == "" {
		cfg.Dir = os.TempDir()
	}
	return &backend{cfg: cfg}
}

// Name returns "process".
func (*backend) Name() string { return "process" }

// Probe reports what the backend can do on this machine.
func (b *backend) Probe(ctx context.Context) []harness.Capability {
	run := b.canRun()
	if run.Available {
		run = b.checkServer(ctx)
	}
	var own map[string]harness.Capability
	if run.Available {
		own = b.machineCapabilities(ctx)
	}
	return real.Abilities(run, faultCapabilities, own, unsupported...)
}

var unsupported = []harness.Capability{
	{Name: nemesis.Capability(nemesis.PowerPackets, nemesis.Link), Reason: "nodes share this machine's network, and dropping packets needs a network of the node's own", Remedy: "use --backend docker, or a cut of another mode"},
	{Name: nemesis.Capability("unplug", nemesis.Node), Reason: "nodes share this machine's network, so none can be unplugged", Remedy: "use --backend docker, or cut the node's links"},
	{Name: nemesis.Capability("starve", nemesis.Node), Reason: "nodes share this machine's processors and memory, without limits of their own", Remedy: "use --backend docker, or pause the node"},
	{Name: scenario.CanUseImage, Reason: "nodes run this machine's redis-server, not an image", Remedy: "run it in containers (--backend docker)"},
}

func needsClocks(s scenario.Scenario) bool {
	return slices.ContainsFunc(s.Needs(), func(c string) bool { return slices.Contains(real.ClockPowers, c) })
}

func (b *backend) canRun() harness.Capability {
	c := harness.Capability{Name: harness.CanRun}
	if runtime.GOOS != "linux" {
		c.Reason = "this backend needs Linux, but this is " + runtime.GOOS
		c.Remedy = "use the simulation (--backend sim)"
		return c
	}
	if _, err := exec.LookPath(b.cfg.RedisServer); err != nil {
		c.Reason = b.cfg.RedisServer + " is not on PATH"
		c.Remedy = "apt-get install redis-server"
		return c
	}
	c.Available = true
	return c
}

var serverVersion = regexp.MustCompile(` server v=(\S+)`)

// Version returns the version that the redis-server program reports, such as "7.0.15".
func (b *backend) Version(ctx context.Context) (string, error) {
	return proc.AskVersion(ctx, serverVersion, b.cfg.RedisServer, "--version")
}
