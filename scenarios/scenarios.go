// Package scenarios holds the catalogue: one experiment a YAML file, embedded
// in the program.
//
// Each file draws its schedule at the top, and says what it claims, who said so
// first, and what must come of it. Names lists the files in the order of the
// catalogue: first what a lock must stand, then what does it harm, with the
// cure as a variant. Find is what somebody means by a name.
//
// Deliberately missing: the form of a file, which package harness/scenario reads.
package scenarios

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// Files holds NAME.yaml for each of Names.
//
//go:embed *.yaml
var Files embed.FS

// order is the order of the catalogue.
var order = []string{
	"baseline",
	"skewed-clocks",
	"minority-down",
	"release-then-node-down",
	"majority-down",
	"holder-crashes",
	"holder-cut-off",
	"loss-is-told",
	"lease-context",
	"lost-packets",
	"endless-partitions",
	"disjoint-views",
	"slow-network",
	"slow-acquire",
	"slow-acquire-in-ttl",
	"pause-while-acquiring",
	"late-return",
	"pause-before-check",
	"lost-reply",
	"no-answer",
	"cancelled-acquire",
	"abandoned-set",
	"foreign-release",
	"delayed-release-meets-next-hold",
	"split-vote",
	"even-nodes",
	"node-stall",
	"node-never-answers",
	"node-starved",
	"node-unplugged",
	"sequential-or-multiplexed",
	"extend-to-finish",
	"slow-extend-in-ttl",
	"extend-under-partition",
	"extend-meets-other-key",
	"renewal-meets-other-key",
	"fence-after-grant",
	"extend-hides-loss",
	"ttl-runs-while-off",
	"clean-restart",
	"process-crash-everysec",
	"power-loss-always",
	"delayed-restart",
	"ntp-slew",
	"clock-jump-small",
	"wall-clock-forward",
	"node-clock-steps-back",
	"single-instance",
	"gc-pause-after-acquire",
	"gc-like-pauses",
	"delayed-write",
	"clock-jump",
	"clock-drift-10-percent",
	"clock-drift-both-ways",
	"client-clock-steps-back",
	"restart-forgets",
	"keys-lost-one-by-one",
	"power-loss-everysec",
	"power-loss-no-fsync",
	"short-restart-delay",
	"restart-delay-fast-clock",
	"failed-release",
	"failover-loses-lock",
	"redlock-on-replicas",
	"single-instance-restart",
	"delayed-release-kills-retry",
	"weak-token",
	"unlimited-extension",
	"extend-retakes-lost-lock",
	"same-node-twice",
	"fence-forgets",
	"counter-after-acquire",
	"random-within-assumptions",
	"random-settings",
	"random-faults",
}

// Names lists the scenarios in the order of the catalogue.
func Names() []string { return slices.Clone(order) }

// Read returns the text of a scenario.
func Read(name string) ([]byte, error) {
	if !slices.Contains(order, name) {
		return nil, fmt.Errorf("find scenario %q: it is none of %s", name, strings.Join(order, ", "))
	}
	return Files.ReadFile(name + ".yaml")
}
