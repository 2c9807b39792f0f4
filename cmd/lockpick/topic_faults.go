package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/nemesis"
)

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
