package docker

import (
	"context"
	"runtime"

	"lockpick/harness"
	"lockpick/harness/lock"
	"lockpick/harness/real"
	"lockpick/harness/real/fuse"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Remark returns a note on which engine is used and which image nodes run.
func (*backend) Remark(ctx context.Context) string {
	return engineRemark(ctx) + "; nodes run topology.image if it is set, else " + defaultImage + " if the engine has it, else this machine's redis-server"
}

// capability returns a capability that is available if reason is "".
func capability(reason, remedy string) harness.Capability {
	if reason == "" {
		return harness.Capability{Available: true}
	}
	return harness.Capability{Reason: reason, Remedy: remedy}
}

// capabilities are the capabilities that depend on the engine.
type capabilities struct{ run, clocks, clientClocks, disks, limits harness.Capability }

func (b *backend) Probe(ctx context.Context) []harness.Capability {
	found := b.findCapabilities(ctx)
	byName := map[string]harness.Capability{
		fuse.PowerLoss: found.disks, fuse.DiskFaults: found.disks, nemesis.Capability("starve", nemesis.Node): found.limits,
		nemesis.Capability(nemesis.ClockCapability, nemesis.Node): found.clocks,
	}
	for _, name := range real.ClockCapabilities {
		if _, known := byName[name]; !known {
			byName[name] = found.clientClocks
		}
	}
	var unavailable []harness.Capability
	for _, store := range lock.Servers() {
		unavailable = append(unavailable, harness.Capability{Name: store, Reason: "node containers run only Redis", Remedy: "use real processes (--backend process)"})
	}
	if len(b.cfg.Adapter) > 0 {
		ownTime := found.clientClocks
		ownTime.Name = scenario.OwnTimeCapability
		unavailable = append(unavailable, ownTime)
	}
	return real.Capabilities(found.run, faultInterfaces, byName, unavailable...)
}

func (b *backend) findCapabilities(ctx context.Context) (found capabilities) {
	if runtime.GOOS != "linux" {
		found.run = capability("it needs Linux; this is "+runtime.GOOS, "use the simulation (--backend sim)")
	} else {
		found = b.probeEngine(ctx)
	}
	found.run.Name, found.clientClocks = harness.RunCapability, found.clocks
	if len(b.cfg.Adapter) > 0 {
		found.clientClocks = capability("in a container, only the client's clocks could be changed, not its adapter's", "use real processes (--backend process)")
	}
	return found
}
