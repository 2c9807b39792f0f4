package resource

import (
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// contended counts the log's writes that may come to harm: those on a key on which another
// client than theirs has worked, too.
func contended(r *facts.Facts) int {
	several := shared(r.Log, func(e *history.Event) string { return who(r, e.Session) })
	n := 0
	for _, e := range r.Log {
		if _, ok := several[e.Key]; ok && e.Cause == history.OpWrite {
			n++
		}
	}
	return n
}

// shared finds the keys on which there are entries of more than one, and the place of the
// first entry that is of another than the first.
func shared(log []*history.Event, whose func(*history.Event) string) map[string]int {
	first, second := map[string]string{}, map[string]int{}
	for i, e := range log {
		if _, ok := second[e.Key]; ok {
			continue
		}
		switch one, seen := first[e.Key]; {
		case !seen:
			first[e.Key] = whose(e)
		case one != whose(e):
			second[e.Key] = i
		}
	}
	return second
}
