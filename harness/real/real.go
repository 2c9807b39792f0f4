// Package real is what the real back ends (processes and containers) have in common: a run's
// servers, clients, links, clocks and fail-overs, and how each fault is read back.
//
//	Machine         where a program runs, as a back end has it: it pauses, resumes and kills it.
//	                Server and Program are the machines of a server and of a client
//	Run             one run: the powers that package nemesis declares, over machines, links, clocks
//	                and disks; a back end embeds it and tells it how to start a server and a client
//	Abilities       what a back end can do here, from what it has tried
//	Network         the links between clients and nodes; RemoteNetwork has the same powers over
//	                links of another process, which ServeLinks makes there
//	Clock           the clocks of one process, changed from here or by ServeClock in its container
//	Client          a client process, whose program is ClientMain
//	Nodes           which server serves each node, and fail-over by hand or by sentinels
//	Monitor         what somebody else does to the programs of a run
//	Caller          calls to a part of lockpick in another process, one JSON value a line
//	AdapterProcess  the program that has a lock under test; SmokeTest tries it before a run
//
// A node's wall clock is changed, because Redis expires keys by it; its monotonic clock stays
// true. Of a client both are changed: a jump sets the wall clock, a rate applies to both.
//
// Not here: how programs are started (packages process and docker), what proxies do with bytes
// (package proxy), what nodes report about their keys (package keylife), how a process gets a
// wrong clock (package vdso), and what a fault means (package nemesis). Most of it needs Linux.
package real

import (
	"slices"

	"lockpick/harness"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Cluster is what every real backend's cluster is: it has the powers over servers and
// clients, links, messages, clocks and disks.
type Cluster interface {
	harness.Cluster
	nemesis.Pauser
	nemesis.Killer
	nemesis.Restarter
	nemesis.Shutter
	nemesis.Cutter
	nemesis.Shaper
	nemesis.Tapper
	nemesis.Clocker
	nemesis.PowerLoser
	nemesis.Disker
	nemesis.Toucher
	nemesis.FailOverer
	nemesis.SentinelFailOverer
}

// ClockPowers need more of a machine than the others.
var ClockPowers = []string{
	nemesis.Capability(nemesis.PowerClock, nemesis.Client),
	nemesis.Capability(nemesis.PowerClock, nemesis.Node),
	scenario.CanSetOwnTime,
}

// SmokeStep is what came of one step of the smoke test.
type SmokeStep struct {
	Name     string
	Expected string // with the limit
	Got      string
	Failed   bool
}

// Abilities lists what a real back end can do on this machine, whose cluster has powers: nothing if
// it can't run, else what own says of a capability, or all of it. What it never does stays so.
func Abilities(run harness.Capability, powers any, own map[string]harness.Capability, never ...harness.Capability) []harness.Capability {
	all := []harness.Capability{run}
	for _, name := range append([]string{scenario.CanPersist, scenario.CanReplicate, scenario.CanTellLife, scenario.CanSetOwnTime, scenario.CanImage}, lock.Servers()...) {
		all = append(all, harness.Capability{Name: name, Available: true})
	}
	all = append(all, harness.PowersOf(powers)...)
	for i, c := range all {
		what, tried := own[c.Name]
		no := slices.IndexFunc(never, func(n harness.Capability) bool { return n.Name == c.Name })
		switch {
		case no >= 0:
			all[i] = never[no]
		case !run.Available:
			all[i] = run
		case tried:
			all[i] = what
		}
		all[i].Name = c.Name
	}
	return all
}
