package docker

import (
	"context"
	"runtime"

	"lockpick/harness"
	"lockpick/harness/lock"
	"lockpick/harness/real/fuse"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Remark says which engine it is, and what nodes run there.
func (*backend) Remark(ctx context.Context) string {
	return engineRemark(ctx) + "; nodes run the image " + usual + " if it has that, else this machine's own redis-server with its libraries, or topology.image"
}

// why is the reason that it can't do something, and what to do about it; zero: it can.
type why struct{ reason, remedy string }

func whyOf(reason, remedy string) why { return why{reason, remedy} }

func (w why) capability(name string) harness.Capability {
	return harness.Capability{Name: name, Available: w.reason == "", Reason: w.reason, Remedy: w.remedy}
}

// lacking is why it can't run, and what it can't do where it can.
type lacking struct{ run, clocks, disks, bounds, adapted why }

// Probe says what it can do on this machine.
func (b *backend) Probe(ctx context.Context) []harness.Capability {
	lacks := b.missing(ctx)
	if lacks.run != (why{}) {
		lacks.clocks = lacks.run
	}
	out := []harness.Capability{lacks.run.capability(harness.CanRun), lacks.clocks.capability(scenario.CanSetOwnTime)}
	for _, name := range []string{scenario.CanPersist, scenario.CanReplicate, scenario.CanImage, scenario.CanTellLife} {
		out = append(out, lacks.run.capability(name))
	}
	for _, store := range lock.Servers() {
		out = append(out, why{"containers of nodes run Redis", "run it on real processes (--backend process)"}.capability(store))
	}
	needs := map[string]why{fuse.LosesPower: lacks.disks, fuse.HitsDisks: lacks.disks, nemesis.Capability("starve", nemesis.Node): lacks.bounds}
	for _, on := range []nemesis.Target{nemesis.Client, nemesis.Node} {
		needs[nemesis.Capability(nemesis.PowerClock, on)] = lacks.clocks
	}
	if lacks.adapted != (why{}) {
		needs[nemesis.Capability(nemesis.PowerClock, nemesis.Client)] = lacks.adapted
		out[1] = lacks.adapted.capability(scenario.CanSetOwnTime)
	}
	for _, c := range harness.PowersOf(powers) {
		if more, ok := needs[c.Name]; ok {
			c = more.capability(c.Name)
		}
		if lacks.run != (why{}) {
			c = lacks.run.capability(c.Name)
		}
		out = append(out, c)
	}
	return out
}

func (b *backend) missing(ctx context.Context) lacking {
	if runtime.GOOS != "linux" {
		return lacking{run: why{"it needs Linux, this is " + runtime.GOOS, "use the simulation (--backend sim)"}}
	}
	l := b.lacks(ctx)
	if len(b.cfg.Adapter) > 0 {
		l.adapted = why{"an adapter in a container keeps the container's clocks, and its client's would be turned alone", "run it on real processes (--backend process)"}
	}
	return l
}
