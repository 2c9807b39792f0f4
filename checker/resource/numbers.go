package resource

import (
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Numbers measures what came to the resource.
func (r *Log) Numbers(n map[string]float64) {
	if len(r.Log) == 0 {
		return
	}
	n[verdict.Writes] = float64(r.writes)
	n[verdict.RefusedWrites] = float64(r.refused)
	n[verdict.WritesOutsideBelief] = float64(r.outside)
	n[verdict.LostUpdates] = float64(len(r.lost))
	if fenced(r.Facts) {
		n[verdict.RefusedHolders] = float64(refusedHolders(r))
	}
}

// refusedHolders counts the refusals of sessions that believed they held the
// lock, whatever mode the fence has and whoever is to blame.
func refusedHolders(r *Log) int {
	n := 0
	for _, e := range r.Log {
		if e.Type != history.Fail {
			continue
		}
		if _, held := heldWhenRefused(r, e); held {
			n++
		}
	}
	return n
}

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
