package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/docker"
	"lockpick/harness"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/process"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/exhaust"
)

// knownNames returns the names of locks, backends and so on that a scenario file may refer to.
func knownNames() scenario.KnownNames {
	k := campaign.KnownLocks(kinds.All)
	k.Backends, k.Folders = backendNames, storeFolders
	return k
}

// storeFolders lists the store's own folders, which can't be names of scenarios.
var storeFolders = append(campaign.Folders(), exhaust.Folder)

// choice selects scenarios by name and tag, and overrides their settings.
type choice struct {
	names     []string
	tags      []string
	overrides []string
}

type pick = campaign.Pick

// scenarios returns the selected scenarios without replacing their locks or expectations.
func (c choice) scenarios() (all []pick, err error) {
	s := campaign.Selection{Names: c.names, Tags: c.tags, Overrides: c.overrides}
	found, err := s.Find(knownNames())
	for _, f := range found {
		all = append(all, pick{Found: f})
	}
	return all, selectionError(err)
}

func (f *runFlags) selection(names ...string) campaign.Selection {
	return campaign.Selection{Names: names, Tags: f.tags, Lock: f.lock, Adapter: f.adapter, Nodes: f.nodes, Overrides: f.settings, Expectations: f.expectations, DefaultExpectations: f.defaultExpectations, Backend: f.backend, Scale: f.scale}
}

// resolve finds the selected scenarios. It also stores the normalized --lock, --set and --nodes
// values, so that printed rerun commands use them.
func (f *runFlags) resolve(s *campaign.Selection) (campaign.Choice, error) {
	c, err := s.Choose(knownNames())
	f.lock, f.settings, f.nodes = s.Lock, s.Overrides, s.Nodes
	return c, selectionError(err)
}

// chooseScenarios returns the named scenarios with the lock, expectations and scale from the flags,
// and separately the scenarios that don't suit the lock.
func (f *runFlags) chooseScenarios(names ...string) (picks []pick, skipped []campaign.Skip, err error) {
	s := f.selection(names...)
	c, err := f.resolve(&s)
	return c.Picks, c.Skipped, err
}

// selectionError adds a hint to an error about an invalid selection.
func selectionError(err error) error {
	e, ok := errors.AsType[*campaign.SelectionError](err)
	if !ok {
		return err
	}
	names := strings.Join(e.Valid, ", ")
	hint := map[string]string{
		"Names": "see lockpick list", "Tags": "see lockpick list for names and tags", "Sets": "leave one of them out", "Nodes": "use a number from 1 to " + strconv.Itoa(scenario.MaxNodes),
		"Lock": "one of " + names, "Lock.Mistake": "as in --lock broken --set lock.mistake=plain-del", "Lock.Option": "options: " + names,
		"Expects": "PROPERTY=holds|violated|any, with one of " + names, "Expects.Limits": "add them, as in --set limits='{extensions: 5, hold: 40s}'",
		"Scale": "choose another --scale", "Scale.TTL": "choose a larger --scale",
	}[e.Field]
	switch {
	case e.Field == "Lock.Option" && names == "":
		hint = "leave it out"
	case e.Field == "Tags":
		e.Valid = tagNames()
	}
	for _, word := range e.Invalid {
		if e.Field == "Names" || !slices.Contains(e.Valid, word) {
			hint += suggestion(word, e.Valid)
		}
	}
	return usageError(err, hint)
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(fmt.Errorf("%s takes no arguments, got %q", c.CommandPath(), args[0]), "see "+c.CommandPath()+" --help")
	}
	return nil
}

func oneArg(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError(fmt.Errorf("%s takes one argument, got %d", c.CommandPath(), len(args)), "see "+c.CommandPath()+" --help")
	}
	return nil
}

// Backend names.
const (
	simulation = "sim"
	containers = "docker"
)

// backendNames lists the backends; the first is the default.
var backendNames = []string{simulation, "process", containers}

// backend returns the named backend. config applies only to containers.
func backend(name string, config docker.Config, adapter ...string) (harness.Backend, error) {
	switch name {
	case simulation:
		return sim.New(kinds.All), nil
	case containers:
		config.Adapter = adapter
		return docker.New(config), nil
	case "process":
		self, err := os.Executable()
		if err != nil {
			return nil, backendError(fmt.Errorf("find own binary: %w", err), "start lockpick by its path")
		}
		return process.New(process.Config{Self: []string{self, clientVerb}, Adapter: adapter}), nil
	}
	return nil, usageError(fmt.Errorf("no backend %q", name), "one of "+strings.Join(backendNames, ", ")+suggestion(name, backendNames))
}

// A remarker is a backend that may surprise users on this machine. Remark explains how.
type remarker interface{ Remark(context.Context) string }

// A preparer is a backend that fetches something, such as images, before the first run. That can
// take a while, so Prepare reports what it fetches.
type preparer interface {
	Prepare(ctx context.Context, all []scenario.Scenario, report func(line string)) error
}

// prepare calls Prepare if b is a preparer, and prints its progress.
func prepare(ctx context.Context, b harness.Backend, all []scenario.Scenario, progress io.Writer) error {
	p, ok := b.(preparer)
	if !ok {
		return nil
	}
	err := p.Prepare(ctx, all, func(line string) { fmt.Fprintf(progress, "%s: %s\n", b.Name(), line) })
	var unsupported *docker.MissingError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &unsupported):
		return backendError(fmt.Errorf("backend %s can't run this: %w", b.Name(), unsupported.Reason), unsupported.Remedy)
	case err != nil:
		return backendError(fmt.Errorf("backend %s can't run this: %w", b.Name(), err), cmp.Or(files.Remedy(err, files.TempDirHint), "see lockpick doctor"))
	}
	return nil
}

// rejectBroken returns an error for the lock kind "broken". It is for commands that can't select a
// mistake.
func rejectBroken(command, lock string) error {
	if kind, _, _ := strings.Cut(lock, ":"); kind != "broken" {
		return nil
	}
	return usageError(fmt.Errorf("%s doesn't test deliberately broken locks", command), "to look for the violations of one, use lockpick fuzz --lock broken --set lock.mistake=plain-del")
}

// lockTable returns the table shown by "lockpick help locks": each lock kind with its options.
func lockTable() string {
	var b strings.Builder
	width := 0
	for _, name := range kinds.Names() {
		width = max(width, len(name))
	}
	indent := width + 4
	for _, name := range kinds.Names() {
		k := kinds.All[name]
		b.WriteString(fmt.Sprintf("  %-*s", indent-2, name) + wrap(indent, indent, k.Doc+": "+strings.Join(features(k), ", ")) + "\n")
		for _, o := range k.Options {
			b.WriteString(strings.Repeat(" ", indent) + wrap(indent, indent+2, o.Name+"="+strings.Join(o.Values, "|")+": "+o.Doc) + "\n")
		}
	}
	return b.String()
}

// features describes what a kind of lock is and can do.
func features(k lock.Kind) (out []string) {
	for _, x := range []struct {
		text    string
		applies bool
	}{
		{"on one node", k.OneNode}, {"extends", k.Can.Extend}, {"limits extensions", k.Can.Limit}, {"issues fencing tokens", k.Can.Fence}, {"reentrant", k.Can.Reenter},
		{"queries nodes one by one", k.Can.Sequential}, {"uses the system clock", k.OwnTime}, {"notifies its holder of a loss, without a deadline", k.Belief == lock.BySignal},
		{"neither deadline nor notification of a loss", k.Belief == lock.ByNothing},
	} {
		if x.applies {
			out = append(out, x.text)
		}
	}
	return out
}

func listCmd(out io.Writer) *cobra.Command {
	var verbose, asJSON bool
	var tags []string
	c := &cobra.Command{Use: "list", Short: "list scenarios with their claims and expectations", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON && verbose {
				return usageError(errors.New("--json always prints all details, so --verbose has no effect"), "leave one of them out")
			}
			all, err := choice{tags: tags}.scenarios()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, scenariosOf(all))
			}
			capabilities := map[string]campaign.Capabilities{}
			for _, name := range backendNames {
				b, err := backend(name, docker.Config{})
				if err != nil {
					return err
				}
				if verbose {
					capabilities[name] = campaign.Probe(c.Context(), b)
				}
			}
			for _, s := range all {
				if s.Variant == "" {
					fmt.Fprintf(out, "%s  %s\n", s.Name, display.Paint(out, display.DimText, "["+strings.Join(s.Tags, ", ")+"]"))
					fmt.Fprintln(out, "    "+display.Wrap(display.Width(out)-1, 4, 4, s.Claim))
				}
				fmt.Fprintln(out, "    "+hangingIndent("/"+s.Variant, variantColumnWidth(all), expectations(s.Scenario), display.Width(out)))
				if verbose {
					printPlan(out, s.Scenario)
					printBackends(out, s.Scenario, capabilities)
				}
			}
			return nil
		}}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "also print each scenario's faults, and which backends can run it on this machine")
	addJSONFlag(c, &asJSON, "the scenarios with defaults and variants applied")
	c.Flags().StringSliceVar(&tags, "tag", nil, "only scenarios with this tag")
	return c
}

func variantColumnWidth(all []pick) int {
	n := 0
	for _, p := range all {
		n = max(n, len(p.Variant)+1)
	}
	return n
}

// hangingIndent returns a word, padded to columnWidth, with text that wraps to its right.
func hangingIndent(word string, columnWidth int, text string, width int) string {
	indent := 4 + columnWidth + 1
	return fmt.Sprintf("%-*s %s", columnWidth, word, display.Wrap(width-1, indent, indent, text))
}

func expectations(s scenario.Scenario) string {
	var out []string
	for _, p := range knownNames().Properties {
		if e, ok := s.Expect[p]; ok && e.LeadProperty == "" {
			w := p + " " + e.Want
			if e.Cause != "" {
				w += " (" + e.Cause + ")"
			}
			out = append(out, w)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Numbers)) {
		out = append(out, name+" "+s.Numbers[name].String())
	}
	return strings.Join(out, ", ")
}

func printPlan(out io.Writer, s scenario.Scenario) {
	for i, step := range s.Plan {
		targets := strings.Join(step.Fault.Targets, " ")
		if step.When.Message != nil && targets == "" {
			targets = step.When.Message.Link
		}
		if details := step.Fault.Details(); details != "" {
			targets += " (" + details + ")"
		}
		fmt.Fprintf(out, "        step %d: %s: %s %s\n", i+1, step.When, step.Fault.Kind, targets)
	}
	if s.Random == nil {
		return
	}
	var names []string
	for _, c := range s.Random.Choices() {
		names = append(names, c.Name)
	}
	limits := "without limits"
	if s.Random.Within != "" {
		limits = "within the " + s.Random.Within
	}
	fmt.Fprintf(out, "        drawn from the seed, %s: %s\n", limits, strings.Join(names, ", "))
}

// printBackends prints which backends can run a scenario on this machine, and why the others can't.
func printBackends(out io.Writer, s scenario.Scenario, capabilities map[string]campaign.Capabilities) {
	var backends, obstacles []string
	for _, name := range backendNames {
		missing := capabilities[name].Missing(s, kinds.All)
		switch {
		case len(missing) == 0:
			backends = append(backends, name)
		case missing[0].Name == harness.RunCapability: // so every other capability is missing, too
			obstacles = append(obstacles, name+": "+missing[0].Reason)
		default:
			obstacles = append(obstacles, name+": "+campaign.MissingReasons(missing))
		}
	}
	if len(backends) > 0 {
		fmt.Fprintf(out, "        runs on %s\n", strings.Join(backends, ", "))
	}
	for _, reason := range obstacles {
		fmt.Fprintf(out, "        not on %s\n", reason)
	}
}

func showCmd(out io.Writer) *cobra.Command {
	var schema bool
	c := &cobra.Command{Use: "show NAME", Short: "print a scenario file, to read or copy",
		Args: func(c *cobra.Command, args []string) error {
			if schema {
				return noArgs(c, args)
			}
			return oneArg(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if schema {
				_, err := out.Write(scenario.Schema(knownNames()))
				return err
			}
			name, variant, _ := strings.Cut(args[0], "/")
			if !slices.Contains(scenarios.Names(), name) {
				return usageError(fmt.Errorf("no scenario %q", name), "see lockpick list"+suggestion(name, scenarios.Names()))
			}
			text, err := scenarios.Read(name)
			if err != nil {
				return err
			}
			all, err := scenario.Parse(name+".yaml", text, knownNames())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(s scenario.Scenario) bool { return s.Variant == variant }) {
				return usageError(fmt.Errorf("%s has no variant %q", name, variant), "lockpick show "+name+" prints them all")
			}
			_, err = out.Write(text)
			return err
		}}
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of scenario files")
	return c
}
