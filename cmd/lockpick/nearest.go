package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/checker"
)

// nearest is the name that a word was probably meant to be: one that takes at most two
// typing mistakes, or a third of it, or that has the longest beginning in common; "": none is.
func nearest(word string, names []string) string {
	best, fewest := "", min(3, 1+(len(word)+1)/3)
	for _, n := range names {
		if d := distance(word, n); d < fewest {
			best, fewest = n, d
		}
	}
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

// distance is how many letters have to be put in, taken out or changed, or two neighbours
// swapped, to make one word of the other.
func distance(a, b string) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

// meant asks whether a word was meant to be one of the names; "": nothing comes near.
func meant(word string, names []string) string {
	if n := nearest(word, names); n != "" {
		return "; did you mean " + n + "?"
	}
	return ""
}

// commands are the names of the verbs and topics.
func commands(root *cobra.Command) []string {
	names := []string{"help"}
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

// flagName is a flag as a command's usage begins its line with it.
var flagName = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)

// flagError says of a flag that there is not which one was probably meant.
func flagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("see %s --help", c.CommandPath())
	if word, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
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
