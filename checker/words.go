package checker

import (
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// seconds writes an instant or a span as people read it.
func seconds(ns int64) string { return facts.Seconds(ns) }

// lockName names a lock in a sentence.
func lockName(key string) string {
	if key == "" {
		return "the lock"
	}
	return key
}

// list joins names as a sentence does: "n1, n2 and n3".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// plural writes a count with its noun.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// numbered is the numbers of events in the order of time, each once.
func numbered(events []*history.Event) []int64 {
	events = slices.DeleteFunc(slices.Clone(events), func(e *history.Event) bool { return e == nil })
	slices.SortFunc(events, byTime)
	var ns []int64
	for _, e := range slices.Compact(events) {
		ns = append(ns, e.N)
	}
	return ns
}

func byTime(a, b *history.Event) int {
	if a.T != b.T {
		if a.T < b.T {
			return -1
		}
		return 1
	}
	return int(a.N - b.N)
}
