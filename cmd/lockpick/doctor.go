package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/docker"
	"lockpick/harness"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
	"lockpick/scenarios/campaign"
)

func doctorCmd(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "doctor", Short: "show what this machine can run, and how to enable the rest", Args: noArgs,
		Long: `Show what each backend can do on this machine, and why it can't do the rest. lockpick list -v
shows what scenarios need, and lockpick help faults describes the faults.

The backend docker uses the engine at DOCKER_HOST, or at the usual socket if that is not
set. It ignores the docker command's contexts; to use the current context, export
DOCKER_HOST=$(docker context inspect -f '{{.Endpoints.docker.Host}}').`,
		RunE: func(c *cobra.Command, _ []string) error {
			a.waitForCleanup() // probing creates processes and containers, as a run does
			all, remarks := map[string][]harness.Capability{}, map[string]string{}
			for _, name := range backendNames {
				b, err := backend(name, docker.Config{})
				if err != nil {
					return err
				}
				all[name] = allCapabilities(campaign.Probe(c.Context(), b))
				if m, ok := b.(remarker); ok && all[name][0].Available {
					remarks[name] = m.Remark(c.Context())
				}
			}
			if asJSON {
				return printJSON(a.out, all)
			}
			for _, name := range backendNames {
				fmt.Fprintf(a.out, "%s\n", name)
				diagnose(a.out, all[name])
				if remarks[name] != "" {
					printFinding(a.out, "", "note: "+remarks[name])
				}
			}
			return nil
		}}
	addJSONFlag(c, &asJSON, "the capabilities")
	return c
}

// allCapabilities lists every capability. Capabilities that the backend does not report are missing.
func allCapabilities(reported campaign.Capabilities) (out []harness.Capability) {
	names := append([]string{harness.RunCapability}, scenario.Capabilities()...)
	for _, name := range slices.Sorted(maps.Keys(reported)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		out = append(out, reported.Capability(name))
	}
	return out
}

// diagnose prints a backend's capabilities, grouped by type of target, or the reason why the backend
// can't run.
func diagnose(out io.Writer, all []harness.Capability) {
	if canRun := all[0]; !canRun.Available {
		printFinding(out, "run", "no: "+canRun.Reason)
		printRemedy(out, canRun)
		return
	}
	printFinding(out, "run", "yes")
	for _, g := range groupCapabilities(all[1:]) {
		var availableNames []string
		var missing []harness.Capability
		for _, c := range g.capabilities {
			if c.Available {
				availableNames = append(availableNames, g.shortName(c))
			} else {
				missing = append(missing, c)
			}
		}
		heading := g.name
		if len(availableNames) > 0 {
			printFinding(out, heading, "yes: "+strings.Join(availableNames, ", "))
			heading = ""
		}
		// Print capabilities that are missing for the same reason on one line.
		for len(missing) > 0 {
			first := missing[0]
			var names []string
			missing = slices.DeleteFunc(missing, func(c harness.Capability) bool {
				sameFix := c.Reason == first.Reason && c.Remedy == first.Remedy
				if sameFix {
					names = append(names, g.shortName(c))
				}
				return sameFix
			})
			printFinding(out, heading, "no:  "+strings.Join(names, ", ")+": "+first.Reason)
			heading = ""
			printRemedy(out, first)
		}
	}
}

func printFinding(out io.Writer, heading, text string) {
	fmt.Fprintf(out, "    %-9s %s\n", heading, text)
}

func printRemedy(out io.Writer, c harness.Capability) {
	if c.Remedy != "" {
		printFinding(out, "", "     fix: "+c.Remedy)
	}
}

// A group contains the capabilities for one type of target.
type group struct {
	name         string
	suffix       string
	capabilities []harness.Capability
}

func (g group) shortName(c harness.Capability) string { return strings.TrimSuffix(c.Name, g.suffix) }

func groupCapabilities(all []harness.Capability) []group {
	groups := []group{{name: "topology"}}
	for _, target := range []nemesis.Target{nemesis.Client, nemesis.Node, nemesis.Link, nemesis.Message} {
		groups = append(groups, group{name: string(target) + "s", suffix: "-" + string(target)})
	}
	for _, c := range all {
		i := slices.IndexFunc(groups, func(g group) bool { return g.suffix != "" && strings.HasSuffix(c.Name, g.suffix) })
		groups[max(i, 0)].capabilities = append(groups[max(i, 0)].capabilities, c)
	}
	return groups
}
