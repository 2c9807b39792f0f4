package resource

import (
	"lockpick/checker/verdict"
	"lockpick/harness/history"
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
