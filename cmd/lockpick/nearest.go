package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/checker"
	"lockpick/harness/scenario"
)

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

// misspelt asks which property was meant by what is none.
func misspelt(name string) string {
	if slices.Contains(checker.Properties(), name) {
		return ""
	}
	return meant(name, checker.Properties())
}
