package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/harness/files"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/scenarios"
	"lockpick/scenarios/suite"
)

// known is what a scenario may name.
func known() scenario.Known {
	k := suite.Known(kinds.All)
	k.Backends = backendNames
	return k
}

// choice is which scenarios to run, and with which overrides.
type choice struct {
	names []string
	tags  []string
	sets  []string
}

// pick is a scenario and what the command line calls its file.
type pick struct {
	scenario.Scenario
	from string // a path, or a name of the catalogue
	// own is the scenario with its own lock, where another stands in for it.
	own *scenario.Scenario
}

// exact is how the command line calls exactly this scenario.
func (p pick) exact() string { return p.from + "/" + p.Variant }

// scenarios resolves a choice: names, NAME/VARIANT, NAME/ for the base alone,
// globs, and files, likewise with a variant. Nothing named is everything; what
// is named twice is run once.
func (c choice) scenarios() ([]pick, error) {
	names := c.names
	if len(names) == 0 {
		names = []string{"*"}
	}
	var out []pick
	had := map[string]bool{}
	for _, n := range names {
		found, err := c.named(n)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			untagged := slices.ContainsFunc(c.tags, func(t string) bool { return !slices.Contains(p.Tags, t) })
			if !had[p.exact()] && !untagged {
				out = append(out, p)
			}
			had[p.exact()] = true
		}
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

// named finds what one name of the command line means. Overrides need to fit
// only what it means.
func (c choice) named(name string) ([]pick, error) {
	if path, variant, ok := file(name); ok {
		return c.read(path, variant)
	}
	base, variant, exact := strings.Cut(name, "/")
	if !exact {
		variant = "*"
	}
	var out []pick
	for _, n := range scenarios.Names() {
		if ok, err := path.Match(base, n); err != nil || !ok {
			continue
		}
		text, err := scenarios.Read(n)
		if err != nil {
			return nil, err
		}
		found, err := c.parse(n, n+".yaml", text, variant)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, usage(fmt.Errorf("no scenario or file %q", name), "see lockpick list"+near(name))
	}
	return out, nil
}

// file says whether a name is that of a file, FILE/VARIANT or FILE/.
func file(name string) (path, variant string, ok bool) {
	there := func(p string) bool {
		info, err := os.Stat(p)
		return err == nil && !info.IsDir()
	}
	if there(name) {
		return name, "*", true
	}
	i := strings.LastIndex(name, "/")
	if i > 0 && there(name[:i]) {
		return name[:i], name[i+1:], true
	}
	return "", "", false
}

func (c choice) read(name, variant string) ([]pick, error) {
	const hint = "name a scenario of lockpick list, or a readable file"
	text, err := files.Read(name, scenario.MaxFile)
	if err != nil {
		return nil, usage(fmt.Errorf("read scenario: %w", err), hint)
	}
	found, err := c.parse(name, name, text, variant)
	if err == nil && len(found) == 0 {
		err = usage(fmt.Errorf("%s has no variant %q", name, variant), "its variants stand under variants:; "+name+"/ is the base alone")
	}
	return found, err
}

func (c choice) parse(from, name string, text []byte, variant string) ([]pick, error) {
	var out []pick
	all, err := scenario.ParseWith(name, text, known(), c.sets, func(v string) bool {
		ok, err := path.Match(variant, v)
		return err == nil && ok
	})
	if err != nil {
		return nil, usage(err, "")
	}
	for _, s := range all {
		out = append(out, pick{Scenario: s, from: from})
	}
	return out, nil
}

// near suggests the scenario that was probably meant.
func near(name string) string { return meant(name, scenarios.Names()) }

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
