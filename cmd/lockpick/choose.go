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

// knownNames returns the names that a scenario may use.
func knownNames() scenario.Known {
	k := campaign.KnownLocks(kinds.All)
	k.Backends, k.Folders = backendNames, storeFolders
	return k
}

// storeFolders lists the folders of a store that contain no runs of a scenario.
var storeFolders = append(campaign.Folders(), exhaust.Folder)

// choice selects scenarios, with overrides.
type choice struct {
	names []string
	tags  []string
	sets  []string
}

type pick = campaign.Pick

// scenarios returns the selected scenarios, with their own locks and expectations.
func (c choice) scenarios() (all []pick, err error) {
	s := campaign.Selection{Names: c.names, Tags: c.tags, Sets: c.sets}
	found, err := s.Find(knownNames())
	for _, f := range found {
		all = append(all, pick{Found: f})
	}
	return all, selectionError(err)
}

// selection returns the selection that the flags and the given names describe.
func (f *runFlags) selection(names ...string) campaign.Selection {
	return campaign.Selection{Names: names, Tags: f.tags, Lock: f.lock, Adapter: f.adapter, Nodes: f.nodes, Sets: f.sets, Expects: f.expects, DefaultExpects: f.demands, Backend: f.backend, Scale: f.scale}
}

// resolve resolves a selection, and normalizes its lock flags, which the commands printed for
// reruns repeat.
func (f *runFlags) resolve(s *campaign.Selection) (campaign.Choice, error) {
	c, err := s.Choose(knownNames())
	f.lock, f.sets = s.Lock, s.Sets
	return c, selectionError(err)
}

// chooseScenarios resolves the named scenarios with the lock, the expectations and the scale that
// the flags set. unsuitable lists the scenarios that do not suit the lock.
func (f *runFlags) chooseScenarios(names ...string) (suitable []pick, unsuitable []campaign.Skip, err error) {
	s := f.selection(names...)
	c, err := f.resolve(&s)
	return c.Picks, c.Skipped, err
}

// selectionError adds a hint to the error of an invalid selection.
func selectionError(err error) error {
	w, ok := errors.AsType[*campaign.SelectionError](err)
	if !ok {
		return err
	}
	names := strings.Join(w.Valid, ", ")
	hint := map[string]string{
		"Names": "see lockpick list", "Tags": "see lockpick list for names and tags", "Sets": "leave one of them out", "Nodes": "a number from 1 to " + strconv.Itoa(scenario.MaxNodes),
		"Lock": "one of " + names, "Lock.Mistake": "as in --lock broken --set lock.mistake=plain-del", "Lock.Option": "options: " + names,
		"Expects": "PROPERTY=holds|violated|any, with one of " + names, "Expects.Limits": "add them, as in --set limits='{extensions: 5, hold: 40s}'",
		"Scale": "choose another --scale", "Scale.TTL": "choose a larger --scale",
	}[w.Field]
	switch {
	case w.Field == "Lock.Option" && names == "":
		hint = "leave it out"
	case w.Field == "Tags":
		w.Valid = tagNames()
	}
	for _, word := range w.Invalid {
		if w.Field == "Names" || !slices.Contains(w.Valid, word) {
			hint += suggestion(word, w.Valid)
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

// Names of backends: simulation runs in virtual time, containers runs images.
const (
	simulation = "sim"
	containers = "docker"
)

// backendNames lists the backends; the first is the default.
var backendNames = []string{simulation, "process", containers}

// backend returns the backend with the given name. in contains the settings for containers.
func backend(name string, in docker.Config, adapter ...string) (harness.Backend, error) {
	switch name {
	case simulation:
		return sim.New(kinds.All), nil
	case containers:
		in.Adapter = adapter
		return docker.New(in), nil
	case "process":
		self, err := os.Executable()
		if err != nil {
			return nil, backendError(fmt.Errorf("find own binary: %w", err), "start lockpick by its path")
		}
		return process.New(process.Config{Self: []string{self, clientVerb}, Adapter: adapter}), nil
	}
	return nil, usageError(fmt.Errorf("no backend %q", name), "one of "+strings.Join(backendNames, ", ")+suggestion(name, backendNames))
}

// remarker is a backend that may not work as users expect; Remark explains how it differs.
type remarker interface{ Remark(context.Context) string }

// preparer is a backend that must fetch something before runs, such as images, which may take
// long. It reports what it fetches.
type preparer interface {
	Prepare(ctx context.Context, all []scenario.Scenario, say func(line string)) error
}

// prepare lets a backend fetch what these scenarios need, and prints its progress.
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

// rejectBroken rejects the lock with planted mistakes for commands with no way to select a mistake.
func rejectBroken(verb, lock string) error {
	if kind, _, _ := strings.Cut(lock, ":"); kind != "broken" {
		return nil
	}
	return usageError(fmt.Errorf("%s doesn't test deliberately broken locks", verb), "lockpick fuzz --lock broken --set lock.mistake=plain-del looks for the violations of one")
}

// lockTable returns the table of lock kinds.
func lockTable() string {
	var b strings.Builder
	width := 0
	for _, name := range kinds.Names() {
		width = max(width, len(name))
	}
	indent := width + 4
	for _, name := range kinds.Names() {
		k := kinds.All[name]
		b.WriteString(fmt.Sprintf("  %-*s", indent-2, name) + wrap(indent, indent, k.Doc+": "+strings.Join(abilities(k), ", ")) + "\n")
		for _, o := range k.Options {
			b.WriteString(strings.Repeat(" ", indent) + wrap(indent, indent+2, o.Name+"="+strings.Join(o.Values, "|")+": "+o.Doc) + "\n")
		}
	}
	return b.String()
}

// abilities describes what a kind of lock is and can do.
func abilities(k lock.Kind) (out []string) {
	for _, x := range []struct {
		word string
		is   bool
	}{
		{"on one node", k.OneNode}, {"extends", k.Can.Extend}, {"limits extensions", k.Can.Limit}, {"issues fencing tokens", k.Can.Fence}, {"reentrant", k.Can.Reenter},
		{"queries nodes in turn", k.Can.Sequential}, {"uses the system clock", k.OwnTime}, {"notifies its holder of a loss, without a deadline", k.Belief == lock.BySignal},
		{"neither deadline nor notification of a loss", k.Belief == lock.ByNothing},
	} {
		if x.is {
			out = append(out, x.word)
		}
	}
	return out
}

func listCmd(out io.Writer) *cobra.Command {
	var verbose, asJSON bool
	var tags []string
	c := &cobra.Command{Use: "list", Short: "list scenarios: what each one shows and what it expects", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON && verbose {
				return usageError(errors.New("--json prints everything about a scenario, so --verbose has no effect"), "leave one of them out")
			}
			all, err := choice{tags: tags}.scenarios()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, scenariosOf(all))
			}
			able := map[string]campaign.Capabilities{}
			for _, name := range backendNames {
				b, err := backend(name, docker.Config{})
				if err != nil {
					return err
				}
				if verbose {
					able[name] = campaign.Probe(c.Context(), b)
				}
			}
			for _, s := range all {
				if s.Variant == "" {
					fmt.Fprintf(out, "%s  %s\n", s.Name, display.Paint(out, display.Dim, "["+strings.Join(s.Tags, ", ")+"]"))
					fmt.Fprintln(out, "    "+display.Wrap(display.Width(out)-1, 4, 4, s.Claim))
				}
				fmt.Fprintln(out, "    "+hangingIndent("/"+s.Variant, longestVariant(all), expectations(s.Scenario), display.Width(out)))
				if verbose {
					listPlan(out, s.Scenario)
					listBackends(out, s.Scenario, able)
				}
			}
			return nil
		}}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "also print faults, and the backends that can run it on this machine")
	jsonFlag(c, &asJSON, "the resolved scenarios")
	c.Flags().StringSliceVar(&tags, "tag", nil, "only scenarios with this tag")
	return c
}

// longestVariant returns the width of the column of variants.
func longestVariant(all []pick) int {
	n := 0
	for _, p := range all {
		n = max(n, len(p.Variant)+1)
	}
	return n
}

// hangingIndent formats a word in a column, followed by a text that wraps in a column of its own.
func hangingIndent(word string, column int, text string, width int) string {
	beside := 4 + column + 1
	return fmt.Sprintf("%-*s %s", column, word, display.Wrap(width-1, beside, beside, text))
}

func expectations(s scenario.Scenario) string {
	var out []string
	for _, p := range knownNames().Properties {
		if e, ok := s.Expect[p]; ok && e.Follows == "" {
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

// listPlan prints the faults of a scenario.
func listPlan(out io.Writer, s scenario.Scenario) {
	for i, st := range s.Plan {
		on := strings.Join(st.Fault.Targets, " ")
		if st.When.Message != nil && on == "" {
			on = st.When.Message.Link
		}
		if details := st.Fault.Details(); details != "" {
			on += " (" + details + ")"
		}
		fmt.Fprintf(out, "        step %d: %s: %s %s\n", i+1, st.When, st.Fault.Kind, on)
	}
	if s.Random == nil {
		return
	}
	var words []string
	for _, c := range s.Random.Choices() {
		words = append(words, c.Name)
	}
	bounds := "without limits"
	if s.Random.Within != "" {
		bounds = "within the " + s.Random.Within
	}
	fmt.Fprintf(out, "        drawn from the seed, %s: %s\n", bounds, strings.Join(words, ", "))
}

// listBackends prints which backends can run a scenario here, and what the others are missing.
func listBackends(out io.Writer, s scenario.Scenario, abilities map[string]campaign.Capabilities) {
	var on, not []string
	for _, name := range backendNames {
		missing := abilities[name].Missing(s, kinds.All)
		switch {
		case len(missing) == 0:
			on = append(on, name)
		case missing[0].Name == harness.CanRun: // then every other capability is missing as well
			not = append(not, name+": "+missing[0].Reason)
		default:
			not = append(not, name+": "+campaign.MissingReasons(missing))
		}
	}
	if len(on) > 0 {
		fmt.Fprintf(out, "        runs on %s\n", strings.Join(on, ", "))
	}
	for _, why := range not {
		fmt.Fprintf(out, "        not on %s\n", why)
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
