// Package process is the backend that runs real processes on this machine in real time:
// redis-servers or members of another store, clients, and the links between them.
//
// A backend sets up a run and tears it down. A cluster contains the processes of one run. Each
// client is a subprocess.
//
// If something interferes with a process, the kernel notifies its parent, and the event is recorded
// (see child.go).
//
// Deliberately missing: the client's program (package client) and the meaning of faults (package
// nemesis). The backend needs Linux.
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

// Config configures a backend. The zero value is enough for Probe.
type Config struct {
	Self        []string // command line that starts a client
	Adapter     []string // command line of the adapter program for locks of kind exec; see package lock/exec
	RedisServer string   // server program; default: redis-server on PATH
	Dir         string   // parent of a run's temporary directory; default: the system's
}

type backend struct{ cfg Config }

var _ harness.Backend = (*backend)(nil)

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

// Probe reports what the backend can do on this machine. It tries each capability.
func (b *backend) Probe(ctx context.Context) []harness.Capability {
	run := b.probeRun()
	if run.Available {
		run = b.checkServer(ctx)
	}
	var machine map[string]harness.Capability
	if run.Available {
		machine = b.machineCapabilities(ctx)
	}
	return real.Capabilities(run, faultCapabilities, machine, unsupportedCapabilities...)
}

var unsupportedCapabilities = []harness.Capability{
	{Name: nemesis.Capability(nemesis.PacketsCapability, nemesis.Link), Reason: "nodes share this machine's network, and dropping packets needs a network of the node's own", Remedy: "use --backend docker, or cut with another mode"},
	{Name: nemesis.Capability("unplug", nemesis.Node), Reason: "nodes share this machine's network, so none can be unplugged", Remedy: "use --backend docker, or cut the node's links"},
	{Name: nemesis.Capability("starve", nemesis.Node), Reason: "nodes share this machine's processors and memory, without limits of their own", Remedy: "use --backend docker, or pause the node"},
	{Name: scenario.ImageCapability, Reason: "nodes run this machine's redis-server, not an image", Remedy: "run it in containers (--backend docker)"},
}

func needsClocks(s scenario.Scenario) bool {
	return slices.ContainsFunc(s.RequiredCapabilities(), func(c string) bool { return slices.Contains(real.ClockCapabilities, c) })
}

func (b *backend) probeRun() harness.Capability {
	c := harness.Capability{Name: harness.RunCapability}
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

// Version returns the version reported by the redis-server program, such as "7.0.15".
func (b *backend) Version(ctx context.Context) (string, error) {
	return proc.AskVersion(ctx, serverVersion, b.cfg.RedisServer, "--version")
}
