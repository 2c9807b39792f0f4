package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
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

// known is what a scenario may name.
func known() scenario.Known {
	k := campaign.KnownLocks(kinds.All)
	k.Backends, k.Folders = backendNames, storeFolders
	return k
}

// storeFolders are those of a store that hold no runs of a scenario.
var storeFolders = append(campaign.Folders(), exhaust.Folder)

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

// simulation is the name of the backend in virtual time, containers that of the one
// that takes images.
const (
	simulation = "sim"
	containers = "docker"
)

// backendNames lists the backends; the first is the default.
var backendNames = []string{simulation, "process", containers}

// backend makes one, that of containers by its own settings.
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
			return nil, unable(fmt.Errorf("find own binary: %w", err), "start lockpick by its path")
		}
		return process.New(process.Config{Self: []string{self, clientVerb}, Adapter: adapter}), nil
	}
	return nil, usage(fmt.Errorf("no backend %q", name), "one of "+strings.Join(backendNames, ", ")+meant(name, backendNames))
}

// remarker is a backend of which people must know how it stands in for what they
// may think of.
type remarker interface{ Remark(context.Context) string }

// preparer is a backend that must get things before runs, as images, which may take
// long. It says what it gets.
type preparer interface {
	Prepare(ctx context.Context, all []scenario.Scenario, say func(line string)) error
}

// prepare lets a backend get what the runs of these need, and passes on what it says.
func prepare(ctx context.Context, b harness.Backend, all []pick, says io.Writer) error {
	p, ok := b.(preparer)
	if !ok {
		return nil
	}
	err := p.Prepare(ctx, resolved(all), func(line string) { fmt.Fprintf(says, "%s: %s\n", b.Name(), line) })
	var lack *docker.Lack
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &lack):
		return unable(fmt.Errorf("backend %s can't run this: %w", b.Name(), lack.Reason), lack.Remedy)
	case err != nil:
		return unable(fmt.Errorf("backend %s can't run this: %w", b.Name(), err), cmp.Or(files.Remedy(err, files.TempDirHint), "see lockpick doctor"))
	}
	return nil
}

// abilities is what a backend can do on this machine.
type abilities map[string]harness.Capability

func probe(ctx context.Context, b harness.Backend) abilities {
	a := abilities{}
	for _, c := range b.Probe(ctx) {
		a[c.Name] = c
	}
	return a
}

// all lists every capability there is, what the backend doesn't know of as missing.
func (a abilities) all() []harness.Capability {
	names := append([]string{harness.CanRun}, scenario.Capabilities()...)
	for _, more := range slices.Sorted(maps.Keys(a)) {
		if !slices.Contains(names, more) {
			names = append(names, more)
		}
	}
	var out []harness.Capability
	for _, name := range names {
		out = append(out, a.of(name))
	}
	return out
}

func (a abilities) of(name string) harness.Capability {
	c, known := a[name]
	if !known {
		c = harness.Capability{Name: name, Reason: cmp.Or(scenario.LackOf(name), "this backend does not have it")}
	}
	return c
}

// missing lists what a scenario needs and the backend can't do.
func (a abilities) missing(s scenario.Scenario) []harness.Capability {
	var out []harness.Capability
	for _, need := range append([]string{harness.CanRun}, s.NeedsOf(kinds.All[s.Lock.Kind])...) {
		if c := a.of(need); !c.Available {
			out = append(out, c)
		}
	}
	return out
}

func reasons(cs []harness.Capability) string {
	var out []string
	for _, c := range cs {
		if scenario.LackOf(c.Name) != "" { // its name is a part of the reason
			out = append(out, c.Reason)
		} else {
			out = append(out, c.Name+": "+c.Reason)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// lockLack is what a scenario lacks that isn't for the lock that was asked for.
const lockLack = "lock"

// unfit is a scenario that isn't for a lock, and why.
type unfit struct {
	scenario.Scenario
	why error
}

// lacks is why the scenario is skipped, as any other reason is told.
func (u unfit) lacks() []harness.Capability {
	return []harness.Capability{{Name: lockLack, Reason: u.why.Error()}}
}

// otherLock takes the override lock.kind as what it is: a wish to see another lock under the
// scenarios, which a plain override would put where it does not fit. The kind that makes
// mistakes needs one named, and stays an override.
func (f *runFlags) otherLock() error {
	given := cmp.Or(f.adapter, f.lock)
	if i := slices.IndexFunc(f.sets, setsKind); given != "" && i >= 0 {
		return usage(fmt.Errorf("%s and --set %s name two locks", given, f.sets[i]), "leave one of them out")
	}
	f.mistaken()
	f.sets = slices.DeleteFunc(f.sets, func(set string) bool {
		_, kind, _ := strings.Cut(set, "=")
		kind = strings.TrimSpace(kind)
		if _, known := kinds.All[kind]; !setsKind(set) || !known || kind == "broken" {
			return false
		}
		f.lock = kind
		return true
	})
	if f.lock == "" {
		return nil
	}
	if i := slices.IndexFunc(f.sets, setsKind); i >= 0 {
		return usage(fmt.Errorf("--set lock.kind=%s and --set %s name two locks", f.lock, f.sets[i]), "leave one of them out")
	}
	name, options, _ := strings.Cut(f.lock, ":")
	kind, known := kinds.All[name]
	switch {
	case name == "broken":
		return usage(errors.New("--lock broken makes no sense without a mistake"), "as in --lock broken --set lock.mistake=plain-del")
	case !known:
		return usage(fmt.Errorf("no lock kind %q", name), "one of "+strings.Join(kinds.Names(), ", ")+meant(name, kinds.Names()))
	}
	return f.lockOptions(name, kind, options)
}

var kindKey = regexp.MustCompile(`(^|[{,\s"'])kind["']?\s*:`)

// setsKind says whether an override names a kind of lock, by itself or with the whole section.
func setsKind(set string) bool {
	key, value, _ := strings.Cut(set, "=")
	key = strings.TrimSpace(key)
	return key == "lock.kind" || key == "lock" && kindKey.MatchString(value)
}

// setsMistake says whether an override names the mistake of a lock.
func setsMistake(set string) bool { return strings.HasPrefix(set, "lock.mistake=") }

// mistaken takes --lock broken with its mistake for what they come to, overrides.
func (f *runFlags) mistaken() {
	if f.lock == "broken" && slices.ContainsFunc(f.sets, setsMistake) {
		f.lock, f.sets = "", append([]string{"lock.kind=broken"}, f.sets...)
	}
}

// unmistakable refuses the lock that makes a mistake where none can be named.
func unmistakable(verb, lock string) error {
	if kind, _, _ := strings.Cut(lock, ":"); kind != "broken" {
		return nil
	}
	return usage(fmt.Errorf("%s takes no lock that makes a mistake on purpose, and broken does", verb), "lockpick fuzz --lock broken --set lock.mistake=plain-del looks for what comes of one")
}

// lockOptions reads what stands behind the kind: OPTION=VALUE,…
func (f *runFlags) lockOptions(name string, kind lock.Kind, text string) error {
	f.kind, f.options = name, map[string]string{}
	if text == "" {
		return nil
	}
	var all []string
	for _, o := range kind.Options {
		all = append(all, o.Name+"="+strings.Join(o.Values, "|"))
	}
	if len(all) == 0 {
		return usage(fmt.Errorf("lock %s has no options, and %q is none", name, text), "leave it out")
	}
	for part := range strings.SplitSeq(text, ",") {
		option, value, _ := strings.Cut(part, "=")
		i := slices.IndexFunc(kind.Options, func(o lock.Option) bool { return o.Name == option })
		if i < 0 || !slices.Contains(kind.Options[i].Values, value) {
			return usage(fmt.Errorf("lock %s has no option %q", name, part), "options: "+strings.Join(all, ", "))
		}
		f.options[option] = value
	}
	return nil
}

// withLock puts another lock under the scenarios, where one was asked for, and says which
// ones aren't for it.
func (f *runFlags) withLock(chosen []pick) (fit []pick, not []unfit) {
	if f.kind == "" {
		return chosen, nil
	}
	for _, p := range chosen {
		kind := kinds.All[f.kind]
		s, err := p.With(f.kind, kind)
		s.Numbers = f.comparable(p, chosen)
		if kind.OwnTime && f.backend == simulation {
			var left []string
			if s, left = s.Unturned(); len(left) > 0 {
				f.undrawn = left
			}
		}
		if err == nil {
			s = s.Having(kind, f.options)
			err = s.Check(known())
		}
		if err != nil {
			not = append(not, unfit{p.Scenario, err})
			continue
		}
		if own := p.Scenario; own.Lock.Kind != s.Lock.Kind || len(f.options) > 0 {
			p.own = &own
		}
		p.Scenario = s
		fit = append(fit, p)
	}
	return fit, not
}

// comparable are the numbers expected of a scenario whose lock stays its own, but for those that
// are compared with a variant which has another lock now.
func (f *runFlags) comparable(p pick, chosen []pick) map[string]scenario.Bound {
	if p.Lock.Kind != f.kind {
		return nil
	}
	numbers := maps.Clone(p.Numbers)
	maps.DeleteFunc(numbers, func(_ string, b scenario.Bound) bool {
		return slices.ContainsFunc(chosen, func(o pick) bool {
			return o.From == p.From && cmp.Or(o.Variant, scenario.BaseVariant) == b.Than && o.Lock.Kind != f.kind
		})
	})
	return numbers
}

// setupsOf are a kind as it comes, and with each other value of each of its options.
func setupsOf(kind string) []string {
	all := []string{kind}
	for _, o := range kinds.All[kind].Options {
		for _, value := range o.Values[1:] {
			all = append(all, kind+":"+strings.TrimPrefix(o.With+","+o.Name+"="+value, ","))
		}
	}
	return all
}

// leavesOut says what random plans leave out for the lock's sake.
func (f *runFlags) leavesOut(w io.Writer) {
	if len(f.undrawn) > 0 {
		fmt.Fprintf(w, "%s: random plans leave out %s: this lock reads its own time, which can't be set here\n", f.backend, strings.Join(f.undrawn, ", "))
	}
}

// lockTable is the table of kinds.
func lockTable() string {
	var b strings.Builder
	width := 0
	for _, name := range kinds.Names() {
		width = max(width, len(name))
	}
	indent := width + 4
	for _, name := range kinds.Names() {
		k := kinds.All[name]
		b.WriteString(fmt.Sprintf("  %-*s", indent-2, name) + wrapped(indent, indent, k.Doc+": "+strings.Join(abilitiesOf(k), ", ")) + "\n")
		for _, o := range k.Options {
			b.WriteString(strings.Repeat(" ", indent) + wrapped(indent, indent+2, o.Name+"="+strings.Join(o.Values, "|")+": "+o.Doc) + "\n")
		}
	}
	return b.String()
}

// abilitiesOf are the words for what a kind is and can do.
func abilitiesOf(k lock.Kind) (out []string) {
	for _, x := range []struct {
		word string
		is   bool
	}{
		{"on one node", k.OneNode}, {"extends", k.Can.Extend}, {"limits extensions", k.Can.Limit}, {"gives fencing tokens", k.Can.Fence}, {"can be acquired again by its holder", k.Can.Reenter},
		{"asks nodes in turn", k.Can.Sequential}, {"reads its own time", k.OwnTime}, {"tells of a loss, and names no deadline", k.Belief == lock.BySignal},
		{"tells its holder nothing", k.Belief == lock.ByNothing},
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
				return usage(errors.New("--json prints everything about a scenario, so --verbose has no effect"), "leave one of them out")
			}
			all, err := choice{tags: tags}.scenarios()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, resolved(all))
			}
			able := map[string]abilities{}
			for _, name := range backendNames {
				b, err := backend(name, docker.Config{})
				if err != nil {
					return err
				}
				if verbose {
					able[name] = probe(c.Context(), b)
				}
			}
			for _, s := range all {
				if s.Variant == "" {
					fmt.Fprintf(out, "%s  %s\n", s.Name, display.Paint(out, display.Dim, "["+strings.Join(s.Tags, ", ")+"]"))
					fmt.Fprintln(out, "    "+display.Wrap(display.Width(out)-1, 4, 4, s.Claim))
				}
				fmt.Fprintln(out, "    "+hung("/"+s.Variant, longestVariant(all), expectations(s.Scenario), display.Width(out)))
				if verbose {
					listPlan(out, s.Scenario)
					listBackends(out, s.Scenario, able)
				}
			}
			return nil
		}}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "faults, and where it can run on this machine")
	jsonFlag(c, &asJSON, "the resolved scenarios")
	c.Flags().StringSliceVar(&tags, "tag", nil, "only scenarios with this tag")
	return c
}

// longestVariant is how wide the column of variants is.
func longestVariant(all []pick) int {
	n := 0
	for _, p := range all {
		n = max(n, len(p.Variant)+1)
	}
	return n
}

// hung is a word in a column, and a text beside it whose lines stay in theirs.
func hung(word string, column int, text string, width int) string {
	beside := 4 + column + 1
	return fmt.Sprintf("%-*s %s", column, word, display.Wrap(width-1, beside, beside, text))
}

func expectations(s scenario.Scenario) string {
	var out []string
	for _, p := range known().Properties {
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

// listPlan prints what goes wrong in a scenario.
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
		words = append(words, c.Word)
	}
	bounds := "without bounds"
	if s.Random.Within != "" {
		bounds = "within the " + s.Random.Within
	}
	fmt.Fprintf(out, "        drawn by the seed, %s: %s\n", bounds, strings.Join(words, ", "))
}

// listBackends prints where a scenario can run here, and what is missing elsewhere.
func listBackends(out io.Writer, s scenario.Scenario, able map[string]abilities) {
	var on, not []string
	for _, name := range backendNames {
		lacks := able[name].missing(s)
		switch {
		case len(lacks) == 0:
			on = append(on, name)
		case lacks[0].Name == harness.CanRun: // then nothing else is there either
			not = append(not, name+": "+lacks[0].Reason)
		default:
			not = append(not, name+": "+reasons(lacks))
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
				_, err := out.Write(scenario.Schema(known()))
				return err
			}
			name, variant, _ := strings.Cut(args[0], "/")
			if !slices.Contains(scenarios.Names(), name) {
				return usage(fmt.Errorf("no scenario %q", name), "see lockpick list"+meant(name, scenarios.Names()))
			}
			text, err := scenarios.Read(name)
			if err != nil {
				return err
			}
			all, err := scenario.Parse(name+".yaml", text, known())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(s scenario.Scenario) bool { return s.Variant == variant }) {
				return usage(fmt.Errorf("%s has no variant %q", name, variant), "lockpick show "+name+" prints them all")
			}
			_, err = out.Write(text)
			return err
		}}
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of scenario files")
	return c
}
