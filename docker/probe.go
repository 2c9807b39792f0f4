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

// Remark says which engine it is, and what nodes run there.
func (*backend) Remark(ctx context.Context) string {
	return engineRemark(ctx) + "; nodes run the image " + usual + " if it has that, else this machine's own redis-server with its libraries, or topology.image"
}

// capable is a capability that is there unless there is a reason.
func capable(reason, remedy string) harness.Capability {
	if reason == "" {
		return harness.Capability{Available: true}
	}
	return harness.Capability{Reason: reason, Remedy: remedy}
}

// abilities is whether it can run, and what not every engine lets it do.
type abilities struct{ run, clocks, clientClocks, disks, bounds harness.Capability }

// Probe says what it can do on this machine.
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
		never = append(never, harness.Capability{Name: store, Reason: "containers of nodes run Redis", Remedy: "run it on real processes (--backend process)"})
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
		can.run = capable("it needs Linux, this is "+runtime.GOOS, "use the simulation (--backend sim)")
	} else {
		can = b.try(ctx)
	}
	can.run.Name, can.clientClocks = harness.CanRun, can.clocks
	if len(b.cfg.Adapter) > 0 {
		can.clientClocks = capable("an adapter in a container keeps the container's clocks, and its client's would be turned alone", "run it on real processes (--backend process)")
	}
	return can
}
