package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/reports/suites"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
)

// known is what a scenario may name.
func known() scenario.Known {
	k := campaign.KnownLocks(kinds.All)
	k.Backends, k.Folders = backendNames, storeFolders
	return k
}

// storeFolders are those of a store that hold no runs of a scenario.
var storeFolders = []string{suites.Folder, suites.ScoreFolder, huntsFolder, corpusFolder, campaign.ShardFolder, envelopesFolder, shrunkFolder, exhaustFolder}

// choice is which scenarios to run, and with which overrides.
type choice struct {
	names []string
	tags  []string
	sets  []string
}

// pick is a scenario, and what the command line calls its file.
type pick struct {
	scenarios.Found
	// own is the scenario with its own lock, where another stands in for it.
	own *scenario.Scenario
}

// scenarios resolves a choice.
func (c choice) scenarios() ([]pick, error) {
	all, failed, err := scenarios.Choose(c.names, c.tags, known(), c.sets)
	if err != nil {
		return nil, usage(err, "see lockpick list"+meant(failed, scenarios.Names()))
	}
	var out []pick
	for _, f := range all {
		out = append(out, pick{Found: f})
	}
	if len(out) == 0 {
		hint := "see lockpick list for names and tags"
		for _, t := range c.tags {
			if all := tagNames(); !slices.Contains(all, t) {
				hint += meant(t, all)
			}
		}
		return nil, usage(errors.New("no scenario is chosen"), hint)
	}
	return out, nil
}

// choose resolves what is named with the lock, the expectations and the scale that the flags
// ask for. not is what is not for the lock.
func (f *runFlags) choose(names ...string) (fit []pick, not []unfit, err error) {
	if err := f.otherLock(); err != nil {
		return nil, nil, err
	}
	chosen, err := choice{names: names, tags: f.tags, sets: f.sets}.scenarios()
	if err != nil {
		return nil, nil, err
	}
	fit, not = f.withLock(chosen)
	if err := f.expect(fit); err != nil {
		return nil, nil, err
	}
	return fit, not, f.scaleAll(fit)
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Errorf("%s takes no arguments, got %q", c.CommandPath(), args[0]), "see "+c.CommandPath()+" --help")
	}
	return nil
}

func oneArg(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Errorf("%s takes one argument, got %d", c.CommandPath(), len(args)), "see "+c.CommandPath()+" --help")
	}
	return nil
}
