// Package real contains what the backends with real processes and containers share: a run's servers,
// clients, links, clocks and failovers, and the read-back of each fault.
//
//	Machine         runs, pauses, resumes and kills a program; each backend has its own. Server and
//	                Program are machines that run a server or a client
//	Run             one run: implements the fault interfaces of package nemesis with machines, links,
//	                clocks and disks. Backends embed it and start servers and clients
//	Capabilities    the capabilities of a backend on this machine, as far as it has tested them
//	Network         the links between clients and nodes; RemoteNetwork controls links in another
//	                process, which serves them with ServeLinks
//	Clock           the clocks of one process, changed by lockpick or by ServeClock in a container
//	Client          a client process, whose program is ClientMain
//	Nodes           the server of each node, and failover by command or by sentinels
//	Monitor         collects interference with a run's programs
//	Caller          calls functions of lockpick in another process, with one JSON value per line
//	AdapterProcess  an adapter's process; SmokeTest tries an adapter before a run
//
// A clock fault on a node changes just the wall clock, by which Redis expires keys. On a client, a
// jump steps the wall clock, and a rate applies to the wall clock and the monotonic clock.
//
// Other packages start programs (process, docker), forward bytes (proxy), follow the nodes' key
// reports (keylife), change a process's clock (vdso), and define the meaning of faults (nemesis).
// Most of package real needs Linux.
package real

import (
	"slices"

	"lockpick/harness"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Cluster is implemented by the clusters of all real backends. It can inject faults in servers,
// clients, links, messages, clocks and disks.
type Cluster interface {
	harness.Cluster
	nemesis.Pauser
	nemesis.Killer
	nemesis.Restarter
	nemesis.Shutdowner
	nemesis.Cutter
	nemesis.Shaper
	nemesis.Tapper
	nemesis.ClockChanger
	nemesis.PowerLoser
	nemesis.DiskFaulter
	nemesis.Toucher
	nemesis.FailOverer
	nemesis.SentinelFailOverer
}

// ClockCapabilities lists the capabilities for clock faults. They require more from a machine than
// other capabilities.
var ClockCapabilities = []string{
	nemesis.Capability(nemesis.ClockCapability, nemesis.Client),
	nemesis.Capability(nemesis.ClockCapability, nemesis.Node),
	scenario.OwnTimeCapability,
}

// SmokeStep is the result of one step of the smoke test.
type SmokeStep struct {
	Name     string
	Expected string // expected outcome, including the time limit
	Got      string
	Failed   bool
}

// Capabilities returns the capabilities of a real backend on this machine. It derives their names
// from faultInterfaces, a value with the fault interfaces of the backend's cluster. If run is
// unavailable, so are all others. Otherwise, overrides replaces individual capabilities, and
// unsupported lists capabilities that the backend does not support on any machine.
func Capabilities(run harness.Capability, faultInterfaces any, overrides map[string]harness.Capability, unsupported ...harness.Capability) []harness.Capability {
	all := []harness.Capability{run}
	for _, name := range append([]string{scenario.PersistenceCapability, scenario.ReplicasCapability, scenario.KeyLifeCapability, scenario.OwnTimeCapability, scenario.ImageCapability}, lock.Servers()...) {
		all = append(all, harness.Capability{Name: name, Available: true})
	}
	all = append(all, harness.CapabilitiesOf(faultInterfaces)...)
	for i, c := range all {
		override, ok := overrides[c.Name]
		index := slices.IndexFunc(unsupported, func(n harness.Capability) bool { return n.Name == c.Name })
		switch {
		case index >= 0:
			all[i] = unsupported[index]
		case !run.Available:
			all[i] = run
		case ok:
			all[i] = override
		}
		all[i].Name = c.Name
	}
	return all
}
