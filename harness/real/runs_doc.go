// Package runs is a run on a real backend, as far as it is the same whatever servers
// and clients run as.
//
// Its nouns are Run, which has the powers over one run; Server, one redis-server of
// the backend's; Client, one client that runs; and Links, what clients and servers talk
// through, in this process or in another. A backend embeds a Run, and adds the powers
// that it alone has.
//
// Deliberately missing: how servers and clients are started, and what the powers mean
// (package nemesis). It needs Linux.
package real

import (
	"lockpick/harness"
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
