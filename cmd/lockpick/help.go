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

// topics lists the help pages that are not about a command. Their text is in topics/NAME.txt.
var topics = []struct{ name, short string }{
	{"causes", "the causes that are reported with violations"},
	{"exit-codes", "what each exit code means"},
	{"files", "the files that lockpick writes"},
	{"verdict-file", "the fields of verdict.json and outcome.json"},
	{"faults", "the faults that lockpick can inject"},
	{"glossary", "definitions of lockpick's terms"},
	{"locks", "which locks can be tested, and what is required of each"},
	{"scenario-format", "how to write a scenario"},
	{"properties", "what lockpick checks, and how"},
	{"shards", "how to run a sweep on several machines"},
}

//go:embed topics/*.txt
var topicFiles embed.FS

// topicText returns the text of a help page. It replaces words in capitals and braces with text
// generated from the code, such as the table of faults.
func topicText(name string) string {
	text, err := topicFiles.ReadFile("topics/" + name + ".txt")
	if err != nil {
		panic(err) // the table above names a file that does not exist
	}
	return strings.NewReplacer(
		"{FAULTS}", faultTable(),
		"{LOCKS}", lockTable(),
		"{BOUNDS}", wrap(0, 0, "Limits of one run: "+strings.Join(scenario.SizeLimits(), "; ")+
			". A scenario that exceeds a limit is refused. A run that records too many events is stopped and is inconclusive. "+
			"The limits also apply to scaled values. FILE is a regular file of at most a megabyte, not a pipe or a device."),
		"{NUMBERS}", wrap(len("Numbers: "), 0, strings.Join(checker.Numbers(), ", ")+"."),
	).Replace(strings.TrimSuffix(string(text), "\n"))
}

// helpWidth is the line length of help pages, in columns.
const helpWidth = 84

func wrap(firstIndent, indent int, text string) string {
	return display.Wrap(helpWidth, firstIndent, indent, text)
}

// faultTable returns the table of faults shown by "lockpick help faults".
func faultTable() string {
	var b strings.Builder
	width := 0
	for _, k := range nemesis.Kinds {
		width = max(width, len(k.Name))
	}
	indent := width + 2
	for _, k := range nemesis.Kinds {
		fmt.Fprintf(&b, "%-*s", indent, k.Name)
		b.WriteString(wrap(indent, indent, k.Doc) + "\n")
		for _, detail := range faultDetails(k) {
			b.WriteString(strings.Repeat(" ", indent) + wrap(indent, indent+7, detail) + "\n")
		}
	}
	return b.String()
}

// faultDetails describes how a scenario can use a kind of fault, one line per aspect.
func faultDetails(k nemesis.Kind) []string {
	var targets, requiredFields, optionalFields, capabilities []string
	for _, t := range k.TargetTypes {
		targets = append(targets, string(t))
		capabilities = append(capabilities, k.Capability(t))
	}
	for _, f := range k.Fields {
		if slices.Contains(k.RequiredFields, f) {
			requiredFields = append(requiredFields, f)
		} else {
			optionalFields = append(optionalFields, f)
		}
	}
	targetLine := "hits:  " + strings.Join(targets, ", ")
	if k.MayOverlap {
		targetLine += "; it may be active in several steps at once"
	}
	out := []string{targetLine}
	addLine := func(what string, words []string) {
		if len(words) > 0 {
			out = append(out, what+strings.Join(words, ", "))
		}
	}
	addLine("needs: ", requiredFields)
	addLine("takes: ", optionalFields)
	addLine("modes: ", k.Modes)
	for _, m := range k.Modes {
		if c := k.ModeActions[m].Capability; c != "" {
			capabilities = append(capabilities, c+" for "+m)
		}
	}
	addLine("power: ", capabilities)
	out = append(out, "within: "+cmp.Or(k.AllowedFaults, "none"))
	return out
}

// completer returns a function that completes one word from names. If files is set, the shell adds
// file names.
func completer(files bool, names func() []string) cobra.CompletionFunc {
	directive := cobra.ShellCompDirectiveNoFileComp
	if files {
		directive = cobra.ShellCompDirectiveDefault
	}
	return func(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return slices.DeleteFunc(names(), func(n string) bool { return !strings.HasPrefix(n, prefix) }), directive
	}
}

// scenarioNames lists all scenarios as NAME and all variants as NAME/VARIANT.
func scenarioNames() []string {
	all, err := choice{}.scenarios()
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range all {
		out = append(out, strings.TrimSuffix(p.ExactName(), "/"))
	}
	return out
}

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

// expectationNames lists the values of --expect.
func expectationNames() []string {
	var out []string
	for _, p := range checker.Properties() {
		out = append(out, p+"=holds", p+"=violated", p+"=any")
	}
	return out
}

// storedRuns lists the runs in the default store, each scenario's newest run first.
func storedRuns() []string { return suites.Runs(defaultStore()) }

// addCompletion sets the completion functions of all commands.
func addCompletion(root *cobra.Command) {
	runs := completer(true, storedRuns)
	runsAndSuites := completer(true, func() []string { return append(storedRuns(), suites.SuiteDirs(defaultStore())...) })
	for name, f := range map[string]cobra.CompletionFunc{
		"run": completer(true, scenarioNames), "show": completer(false, scenarioNames), "check": runs, "explain": runs, "replay": runs,
		"report":   runsAndSuites,
		"export":   runsAndSuites,
		"minimize": completer(true, func() []string { return append(storedRuns(), scenarioNames()...) }),
	} {
		if c, _, err := root.Find([]string{name}); err == nil {
			c.ValidArgsFunction = f
		}
	}
	for _, c := range root.Commands() {
		for name, f := range map[string]func() []string{
			"backend": func() []string { return slices.Clone(backendNames) },
			"tag":     tagNames,
			"expect":  expectationNames,
			"lock":    kinds.Names,
			"restart": func() (out []string) {
				for _, r := range exhaust.Restarts() {
					out = append(out, string(r))
				}
				return out
			},
			"mistake": exhaust.Mistakes, "without": exhaust.Parts,
			"reduce":  exhaust.ReductionNames,
			"require": func() []string { return append([]string{"all", harness.RunCapability}, scenario.Capabilities()...) },
		} {
			if c.Flags().Lookup(name) != nil {
				c.RegisterFlagCompletionFunc(name, completer(false, f))
			}
		}
	}
	root.RegisterFlagCompletionFunc("color", completer(false, func() []string { return []string{"auto", "always", "never"} }))
}

// nearestName returns the name that the user probably intended: one with a typing mistake, or the
// name with the longest common prefix of at least three letters. It returns "" if no name is
// similar.
func nearestName(word string, names []string) string {
	best := scenario.Nearest(word, names)
	if best != "" {
		return best
	}
	longestPrefix := 2
	for _, n := range names {
		k := 0
		for k < min(len(n), len(word)) && n[k] == word[k] {
			k++
		}
		if k > longestPrefix {
			best, longestPrefix = n, k
		}
	}
	return best
}

// suggestion returns "; did you mean NAME?" for the nearest name, or "" if no name is similar.
func suggestion(word string, names []string) string {
	if n := nearestName(word, names); n != "" {
		return "; did you mean " + n + "?"
	}
	return ""
}

// commandNames lists the subcommands of a command. Those of the root include the topics.
func commandNames(parent *cobra.Command) (names []string) {
	if !parent.HasParent() {
		names = append(names, "help")
	}
	for _, c := range parent.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// flagPattern matches the flag that a line of a command's usage describes.
var flagPattern = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)

// flagError adds a hint to an error about a flag: the flag that the user probably intended, or what
// to use instead of a removed flag.
func flagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("see %s --help", c.CommandPath())
	if word, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		if replacement := replacements[c.Name()+" --"+word]; replacement != "" {
			return usageError(fmt.Errorf("--%s was removed", word), replacement)
		}
		var names []string
		for _, m := range flagPattern.FindAllStringSubmatch(c.Flags().FlagUsages(), -1) {
			names = append(names, m[1])
		}
		if n := nearestName(word, names); n != "" {
			hint += "; did you mean --" + n + "?"
		}
	}
	return usageError(err, hint)
}
