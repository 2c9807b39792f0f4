package main

import (
	"cmp"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
	"lockpick/reports/display"
	"lockpick/reports/suites"
	"lockpick/scenarios/exhaust"
)

// topics are help pages that belong to no command: topics/NAME.txt has their text.
var topics = []struct{ name, short string }{
	{"exit-codes", "what the exit code says"},
	{"files", "what a run leaves on disk"},
	{"verdict-file", "what stands in verdict.json and outcome.json"},
	{"faults", "what can go wrong on purpose"},
	{"locks", "what can be tested, and what each lock is held to"},
	{"scenario-format", "how to write a scenario"},
	{"properties", "what is checked"},
	{"shards", "how to run a sweep on several machines"},
}

//go:embed topics/*.txt
var texts embed.FS

// topic is the text of a help page. A word in capitals and braces stands for what the code
// knows better: the table of faults, the bounds of a run, the numbers that it measures.
func topic(name string) string {
	text, err := texts.ReadFile("topics/" + name + ".txt")
	if err != nil {
		panic(err) // the table above names a file that there isn't
	}
	return strings.NewReplacer(
		"{FAULTS}", faults(),
		"{LOCKS}", lockTable(),
		"{BOUNDS}", wrapped(0, 0, "What one run may have at most: "+strings.Join(scenario.Bounds(), "; ")+
			". More is refused where it stands, and a run that records more events is stopped there, undecided. "+
			"What is scaled is held to the same bounds. FILE is a regular file of at most a megabyte: no pipe, no device."),
		"{NUMBERS}", wrapped(len("expected: "), 0, strings.Join(checker.Numbers(), ", ")+"."),
	).Replace(strings.TrimSuffix(string(text), "\n"))
}

// helpWidth is how wide help is.
const helpWidth = 84

// wrapped breaks a text of help into lines.
func wrapped(first, others int, text string) string {
	return display.Wrap(helpWidth, first, others, text)
}

// faults is the table of what the nemesis can do.
func faults() string {
	var b strings.Builder
	width := 0
	for _, k := range nemesis.Kinds {
		width = max(width, len(k.Name))
	}
	indent := width + 2
	for _, k := range nemesis.Kinds {
		fmt.Fprintf(&b, "%-*s", indent, k.Name)
		b.WriteString(wrapped(indent, indent, k.Doc) + "\n")
		for _, fact := range facts(k) {
			b.WriteString(strings.Repeat(" ", indent) + wrapped(indent, indent+7, fact) + "\n")
		}
	}
	return b.String()
}

// facts is what a scenario's author must know of a kind.
func facts(k nemesis.Kind) []string {
	var on, needs, takes, powers []string
	for _, t := range k.On {
		on = append(on, string(t))
		powers = append(powers, k.Capability(t))
	}
	for _, f := range k.Takes {
		if slices.Contains(k.Needs, f) {
			needs = append(needs, f)
		} else {
			takes = append(takes, f)
		}
	}
	hits := "hits:  " + strings.Join(on, ", ")
	if k.Nests {
		hits += "; may be in force for several steps at once"
	}
	out := []string{hits}
	add := func(what string, words []string) {
		if len(words) > 0 {
			out = append(out, what+strings.Join(words, ", "))
		}
	}
	add("needs: ", needs)
	add("takes: ", takes)
	add("modes: ", k.Modes)
	for _, m := range k.Modes {
		if c := k.ByMode[m].Needs; c != "" {
			powers = append(powers, c+" for "+m)
		}
	}
	add("power: ", powers)
	out = append(out, "within: "+cmp.Or(k.Within, "none"))
	return out
}

// completes completes one word by names, and files beside them where the words of a command
// may be files.
func completes(files bool, names func() []string) cobra.CompletionFunc {
	then := cobra.ShellCompDirectiveNoFileComp
	if files {
		then = cobra.ShellCompDirectiveDefault
	}
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return slices.DeleteFunc(names(), func(n string) bool { return !strings.HasPrefix(n, begun) }), then
	}
}

// scenarioNames are all scenarios, each as NAME and its variants as NAME/VARIANT.
func scenarioNames() []string {
	all, err := choice{}.scenarios()
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range all {
		out = append(out, strings.TrimSuffix(p.Exact(), "/"))
	}
	return out
}

// tagNames are the tags of the catalogue.
func tagNames() []string {
	all, err := choice{}.scenarios()
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range all {
		out = append(out, p.Tags...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// expectWords are properties with what can be expected of them.
func expectWords() []string {
	var out []string
	for _, p := range checker.Properties() {
		out = append(out, p+"=holds", p+"=violated", p+"=any")
	}
	return out
}

// storedRuns are the runs of the store, the newest of each scenario first.
func storedRuns() []string { return suites.Runs(defaultStore()) }

// completion says what the words of all commands may be.
func completion(root *cobra.Command) {
	runs := completes(true, storedRuns)
	for name, f := range map[string]cobra.CompletionFunc{
		"run": completes(true, scenarioNames), "show": completes(false, scenarioNames), "check": runs, "explain": runs, "replay": runs,
		"report":   completes(true, func() []string { return append(storedRuns(), suites.Stored(defaultStore())...) }),
		"minimize": completes(true, func() []string { return append(storedRuns(), scenarioNames()...) }),
	} {
		if c, _, err := root.Find([]string{name}); err == nil {
			c.ValidArgsFunction = f
		}
	}
	for _, c := range root.Commands() {
		for name, f := range map[string]func() []string{
			"backend": func() []string { return slices.Clone(backendNames) },
			"tag":     tagNames,
			"expect":  expectWords,
			"lock":    kinds.Names,
			"restart": func() (out []string) {
				for _, r := range exhaust.Restarts() {
					out = append(out, string(r))
				}
				return out
			},
			"mistake": exhaust.Mistakes, "without": exhaust.Parts,
			"reduce":  exhaust.ReductionNames,
			"require": func() []string { return append([]string{"all", harness.CanRun}, scenario.Capabilities()...) },
		} {
			if c.Flags().Lookup(name) != nil {
				c.RegisterFlagCompletionFunc(name, completes(false, f))
			}
		}
	}
	root.RegisterFlagCompletionFunc("color", completes(false, func() []string { return []string{"auto", "always", "never"} }))
}

// nearest is the name that a word was probably meant to be: one that differs by typing mistakes,
// or that has the longest beginning in common; "": none is.
func nearest(word string, names []string) string {
	best := scenario.Nearest(word, names)
	if best != "" {
		return best
	}
	longest := 2
	for _, n := range names {
		k := 0
		for k < min(len(n), len(word)) && n[k] == word[k] {
			k++
		}
		if k > longest {
			best, longest = n, k
		}
	}
	return best
}

// meant asks whether a word was meant to be one of the names; "": nothing comes near.
func meant(word string, names []string) string {
	if n := nearest(word, names); n != "" {
		return "; did you mean " + n + "?"
	}
	return ""
}

// commands are the names of what stands below a command: of the verbs and topics, if it is the root.
func commands(of *cobra.Command) (names []string) {
	if !of.HasParent() {
		names = append(names, "help")
	}
	for _, c := range of.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// flagName is a flag as a command's usage begins its line with it.
var flagName = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)

// flagError suggests the flag that was probably meant, or what replaces one that was removed.
func flagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("see %s --help", c.CommandPath())
	if word, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		if instead := removed[c.Name()+" --"+word]; instead != "" {
			return usage(fmt.Errorf("--%s was removed", word), instead)
		}
		var names []string
		for _, m := range flagName.FindAllStringSubmatch(c.Flags().FlagUsages(), -1) {
			names = append(names, m[1])
		}
		if n := nearest(word, names); n != "" {
			hint += "; did you mean --" + n + "?"
		}
	}
	return usage(err, hint)
}
