package verdict

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// LockName names a lock in a sentence.
func LockName(key string) string { return cmp.Or(key, "the lock") }

// Pair names two sessions by their clients, and by themselves where one client has both.
func Pair(a, b *facts.Session) string {
	if a.Client() == b.Client() {
		return List([]string{a.Name(), b.Name()})
	}
	return List([]string{a.Client(), b.Client()})
}

// List joins names as a sentence does: "n1, n2 and n3".
func List(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Plural writes a count with its noun.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Numbered is the numbers of events in the order of time, each once.
func Numbered(events []*history.Event) []int64 {
	events = slices.DeleteFunc(slices.Clone(events), func(e *history.Event) bool { return e == nil })
	slices.SortFunc(events, ByTime)
	var ns []int64
	for _, e := range slices.Compact(events) {
		ns = append(ns, e.N)
	}
	return ns
}

// ByTime orders events by their instants, and those of one instant by their numbers.
func ByTime(a, b *history.Event) int {
	return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.N, b.N))
}
