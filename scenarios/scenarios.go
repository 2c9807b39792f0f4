// Package scenarios contains the catalog of scenarios, YAML files that are embedded in the program.
//
// Each file starts with a drawing of its timeline, and states a claim, its source and the expected
// result. Names lists the files in catalog order: first faults that a lock must survive, then faults
// that break it, with the fix as a variant. Find resolves a name to scenarios.
//
// Package harness/scenario defines the file format.
package scenarios

import (
	"embed"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"lockpick/harness/scenario"
	"lockpick/internal/files"
)

// Files contains NAME.yaml for each of the Names.
//
//go:embed *.yaml
var Files embed.FS

var catalogOrder = []string{
	"baseline",
	"skewed-clocks",
	"minority-down",
	"failures-in-turn",
	"release-then-node-down",
	"majority-down",
	"holder-crashes",
	"extend-then-crash",
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
	"fractional-ttl",
	"different-ttls",
	"pause-before-check",
	"lost-reply",
	"no-answer",
	"cancelled-acquire",
	"abandoned-set",
	"foreign-release",
	"delayed-release-meets-next-hold",
	"split-vote",
	"even-nodes",
	"even-nodes-divided",
	"even-split-vote",
	"node-stall",
	"node-never-answers",
	"node-starved",
	"node-unplugged",
	"sequential-or-multiplexed",
	"extend-to-finish",
	"slow-extend-in-ttl",
	"late-extension",
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
	"clock-set-while-acquiring",
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

// Names lists the scenarios in catalog order.
func Names() []string { return slices.Clone(catalogOrder) }

// Read returns a scenario's file.
func Read(name string) ([]byte, error) {
	if !slices.Contains(catalogOrder, name) {
		return nil, fmt.Errorf("no scenario %q; the catalog contains %s", name, strings.Join(catalogOrder, ", "))
	}
	return Files.ReadFile(name + ".yaml")
}

// Found is a scenario and where it was found.
type Found struct {
	File              string `json:"from"` // the path of a file, or a name in the catalog
	scenario.Scenario `json:"scenario"`
	Unsuitable        string `json:"-"` // see scenario.Parsed
}

// ExactName returns the name that selects exactly this scenario.
func (f Found) ExactName() string { return f.File + "/" + f.Variant }

// Choose returns the scenarios with the given names, or the whole catalog if there are none, that
// have all of the tags. It returns each scenario once. If a name causes an error, failed is that
// name.
func Choose(names, tags []string, known scenario.KnownNames, o scenario.ParseOptions) (all []Found, failed string, err error) {
	if len(names) == 0 {
		names = []string{"*"}
	}
	seen := map[string]bool{}
	for _, name := range names {
		matches, err := Find(name, known, o)
		if err != nil {
			return nil, name, err
		}
		for _, f := range matches {
			untagged := slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(f.Tags, tag) })
			if !seen[f.ExactName()] && !untagged {
				all = append(all, f)
			}
			seen[f.ExactName()] = true
		}
	}
	return all, "", nil
}

// Find resolves a name: NAME selects a scenario with all its variants, NAME/VARIANT one variant,
// and NAME/ just the base scenario. NAME may be the path of a file. Names in the catalog and
// variants may be globs. The options must be valid for the selected scenarios.
func Find(name string, known scenario.KnownNames, o scenario.ParseOptions) ([]Found, error) {
	if file, variant, ok := existingFile(name); ok {
		text, err := files.Read(file, scenario.MaxFile)
		if err != nil {
			return nil, fmt.Errorf("read scenario: %w", err)
		}
		found, err := parse(file, file, text, variant, known, o)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s has no variant %q; see its variants: section, or use %s/ for the base scenario", file, variant, file)
		}
		return found, err
	}
	base, variant, hasVariant := strings.Cut(name, "/")
	if !hasVariant {
		variant = "*"
	}
	var out []Found
	for _, n := range catalogOrder {
		if !matches(base, n) {
			continue
		}
		text, err := Read(n)
		if err != nil {
			return nil, err
		}
		found, err := parse(n, n+".yaml", text, variant, known, o)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no scenario or file %q", name)
	}
	return out, nil
}

func parse(from, name string, text []byte, variant string, known scenario.KnownNames, o scenario.ParseOptions) ([]Found, error) {
	all, err := scenario.ParseWithOptions(name, text, known, o, func(v string) bool { return matches(variant, v) })
	if err != nil {
		return nil, err
	}
	var out []Found
	for _, p := range all {
		out = append(out, Found{from, p.Scenario, p.Unsuitable})
	}
	return out, nil
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// existingFile splits FILE, FILE/VARIANT or FILE/ into file and variant. ok is false if there is no
// such file.
func existingFile(name string) (file, variant string, ok bool) {
	isFile := func(p string) bool {
		info, err := os.Stat(p)
		return err == nil && !info.IsDir()
	}
	if isFile(name) {
		return name, "*", true
	}
	i := strings.LastIndex(name, "/")
	if i > 0 && isFile(name[:i]) {
		return name[:i], name[i+1:], true
	}
	return "", "", false
}
