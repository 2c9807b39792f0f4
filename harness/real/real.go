// Package real is shared by the backends that use real processes and containers. It contains a run's
// servers, clients, links, clocks and failovers, and the read-back of each fault.
//
//	Machine         runs a program, and pauses, resumes and kills it; each backend has its own.
//	                Server and Program are machines that run a server or a client
//	Run             one run: implements the fault interfaces of package nemesis with machines, links,
//	                clocks and disks; a backend embeds it and adds how to start servers and clients
//	Abilities       the capabilities of a backend on this machine, as far as it has tested them
//	Network         the links between clients and nodes; RemoteNetwork implements the same with
//	                links in another process, where ServeLinks serves them
//	Clock           the clocks of one process, changed by lockpick or by ServeClock in a container
//	Client          a client process, whose program is ClientMain
//	Nodes           the server of each node, and failover by command or by sentinels
//	Monitor         collects interference with a run's programs
//	Caller          calls functions of lockpick in another process, with one JSON value per line
//	AdapterProcess  the program of an adapter; SmokeTest tries one before a run
//
// A clock fault changes only the wall clock of a node, by which Redis expires keys. On a client, a
// jump steps the wall clock, and a rate applies to both the wall clock and the monotonic clock.
//
// Not here: starting programs (packages process and docker), the proxies' handling of bytes
// (package proxy), the nodes' reports about their keys (package keylife), changing a process's
// clock (package vdso), and the meaning of faults (package nemesis). Most of it needs Linux.
package real

import (
	"slices"

	"lockpick/harness"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Cluster is the interface that the clusters of all real backends implement. It comprises the
// faults on servers, clients, links, messages, clocks and disks.
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

// ClockCapabilities lists the capabilities for clock faults. They require more of a machine than the
// others do.
var ClockCapabilities = []string{
	nemesis.Capability(nemesis.PowerClock, nemesis.Client),
	nemesis.Capability(nemesis.PowerClock, nemesis.Node),
	scenario.CanSetOwnTime,
}

// SmokeStep is the result of one step of the smoke test.
type SmokeStep struct {
	Name     string
	Expected string // what the step expects, including the time limit
	Got      string
	Failed   bool
}

// Abilities returns the capabilities of a real backend on this machine. It derives their names from
// faultInterfaces, a value that implements the fault interfaces of the backend's cluster. If run is
// unavailable, so are all others. Otherwise, overrides replaces individual capabilities, and
// unsupported lists those that the backend does not support on any machine.
func Abilities(run harness.Capability, faultInterfaces any, overrides map[string]harness.Capability, unsupported ...harness.Capability) []harness.Capability {
	all := []harness.Capability{run}
	for _, name := range append([]string{scenario.CanPersist, scenario.CanReplicate, scenario.CanReportKeyLife, scenario.CanSetOwnTime, scenario.CanUseImage}, lock.Servers()...) {
		all = append(all, harness.Capability{Name: name, Available: true})
	}
	all = append(all, harness.CapabilitiesOf(faultInterfaces)...)
	for i, c := range all {
		what, tried := overrides[c.Name]
		no := slices.IndexFunc(unsupported, func(n harness.Capability) bool { return n.Name == c.Name })
		switch {
		case no >= 0:
			all[i] = unsupported[no]
		case !run.Available:
			all[i] = run
		case tried:
			all[i] = what
		}
		all[i].Name = c.Name
	}
	return all
}
