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

// Remark names the engine and the image that nodes run.
func (*backend) Remark(ctx context.Context) string {
	return engineRemark(ctx) + "; nodes run topology.image if it is set, else " + usual + " if the engine has it, else this machine's redis-server"
}

// capability returns an available capability if reason is "", and an unavailable one otherwise.
func capable(reason, remedy string) harness.Capability {
	if reason == "" {
		return harness.Capability{Available: true}
	}
	return harness.Capability{Reason: reason, Remedy: remedy}
}

// capabilities are the abilities that depend on the engine.
type abilities struct{ run, clocks, clientClocks, disks, bounds harness.Capability }

// Probe reports the backend's capabilities on this machine.
func (b *backend) Probe(ctx context.Context) []harness.Capability {
	can := b.can(ctx)
	own := map[string]harness.Capability{
		fuse.LosesPower: can.disks, fuse.HitsDisks: can.disks, nemesis.Capability("starve", nemesis.Node): can.bounds,
		nemesis.Capability(nemesis.PowerClock, nemesis.Node): can.clocks,
	}
	for _, name := range real.ClockPowers {
		if _, known := own[name]; !known {
			own[name] = can.clientClocks
		}
	}
	var never []harness.Capability
	for _, store := range lock.Servers() {
		never = append(never, harness.Capability{Name: store, Reason: "node containers run only Redis", Remedy: "use real processes (--backend process)"})
	}
	if len(b.cfg.Adapter) > 0 {
		no := can.clientClocks
		no.Name = scenario.CanSetOwnTime
		never = append(never, no)
	}
	return real.Abilities(can.run, powers, own, never...)
}

func (b *backend) can(ctx context.Context) (can abilities) {
	if runtime.GOOS != "linux" {
		can.run = capable("it needs Linux; this is "+runtime.GOOS, "use the simulation (--backend sim)")
	} else {
		can = b.try(ctx)
	}
	can.run.Name, can.clientClocks = harness.CanRun, can.clocks
	if len(b.cfg.Adapter) > 0 {
		can.clientClocks = capable("in a container only the client's clocks could be changed, not its adapter's", "use real processes (--backend process)")
	}
	return can
}
