package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/lock/broken"
	"lockpick/harness/lock/kinds"
	"lockpick/scenarios"
)

// known is what a scenario may name.
func known() harness.Known {
	k := harness.Known{Locks: kinds.Names(), Properties: checker.Properties(), Causes: checker.Causes()}
	for _, m := range broken.Mistakes() {
		k.Mistakes = append(k.Mistakes, m.Name)
	}
	return k
}

// choice is which scenarios to run, and with which overrides.
type choice struct {
	names []string
	tags  []string
	sets  []string
}

// scenarios resolves a choice: names, NAME/VARIANT, NAME/ for the base alone,
// globs, and files. Nothing named is everything.
func (c choice) scenarios() ([]harness.Scenario, error) {
	var out []harness.Scenario
	for _, n := range c.names {
		found, err := c.named(n)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	if len(c.names) == 0 {
		all, err := c.catalogue()
		if err != nil {
			return nil, err
		}
		out = all
	}
	out = slices.DeleteFunc(out, func(s harness.Scenario) bool { return !c.tagged(s) })
	if len(out) == 0 {
		return nil, usage(errors.New("no scenario is chosen"), "see lockpick list for names and tags")
	}
	return out, nil
}

func (c choice) tagged(s harness.Scenario) bool {
	for _, t := range c.tags {
		if !slices.Contains(s.Tags, t) {
			return false
		}
	}
	return true
}

func (c choice) catalogue() ([]harness.Scenario, error) {
	var out []harness.Scenario
	for _, name := range scenarios.Names() {
		text, err := scenarios.Read(name)
		if err != nil {
			return nil, err
		}
		found, err := harness.ParseWith(name+".yaml", text, known(), c.sets)
		if err != nil {
			return nil, usage(err, "")
		}
		out = append(out, found...)
	}
	return out, nil
}

func (c choice) named(name string) ([]harness.Scenario, error) {
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, usage(fmt.Errorf("read scenario: %w", err), "name a scenario of lockpick list, or a readable file")
		}
		found, err := harness.ParseWith(name, text, known(), c.sets)
		if err != nil {
			return nil, usage(err, "")
		}
		return found, nil
	}
	all, err := c.catalogue()
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(all, func(s harness.Scenario) bool { return !matches(name, s) })
	if len(found) == 0 {
		return nil, usage(fmt.Errorf("no scenario or file %q", name), "see lockpick list"+near(name))
	}
	return found, nil
}

// matches holds a name of the command line against a scenario.
func matches(name string, s harness.Scenario) bool {
	base, variant, exact := strings.Cut(name, "/")
	ok, err := path.Match(base, s.Name)
	if err != nil || !ok {
		return false
	}
	if !exact {
		return true
	}
	ok, err = path.Match(variant, s.Variant)
	return err == nil && ok
}

// near suggests the scenario whose name shares the longest beginning.
func near(name string) string {
	best, length := "", 2
	for _, n := range scenarios.Names() {
		k := 0
		for k < min(len(n), len(name)) && n[k] == name[k] {
			k++
		}
		if k > length {
			best, length = n, k
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
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
