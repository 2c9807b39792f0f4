package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/checker"
	"lockpick/harness"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/reports/suites"
	"lockpick/scenarios/exhaust"
)

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
			"reduce":  func() []string { return slices.Sorted(maps.Keys(reductions)) },
			"require": func() []string { return append([]string{"all", harness.CanRun}, scenario.Capabilities()...) },
		} {
			if c.Flags().Lookup(name) != nil {
				c.RegisterFlagCompletionFunc(name, completes(false, f))
			}
		}
	}
	root.RegisterFlagCompletionFunc("color", completes(false, func() []string { return []string{"auto", "always", "never"} }))
}
