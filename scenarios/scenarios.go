// Package scenarios holds the catalogue: one experiment a YAML file, embedded
// in the program.
//
// Each file draws its schedule at the top, and says what it claims, who said so
// first, and what must come of it. Names lists the files in the order of the
// catalogue: first what a lock must stand, then what does it harm, with the
// cure as a variant.
//
// Deliberately missing: the form of a file, which package harness reads.
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
	"minority-down",
	"majority-down",
	"holder-crashes",
	"holder-cut-off",
	"endless-partitions",
	"disjoint-views",
	"slow-network",
	"slow-acquire",
	"pause-while-acquiring",
	"pause-before-check",
	"sequential-or-multiplexed",
	"delayed-restart",
	"extend-to-finish",
	"gc-pause-after-acquire",
	"gc-like-pauses",
	"delayed-write",
	"restart-forgets",
	"short-restart-delay",
	"restart-delay-fast-clock",
	"fence-forgets",
	"counter-after-acquire",
	"delayed-release-kills-retry",
	"unlimited-extension",
	"random-within-assumptions",
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
