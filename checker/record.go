package checker

import (
	"lockpick/checker/lease"
	"lockpick/checker/liveness"
	"lockpick/checker/resource"
	"lockpick/checker/second"
	"lockpick/checker/windows"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// record is the facts of a history with what is found of them for more than one property
// or number, when it is first asked for.
type record struct {
	*facts.Facts
	beliefs *windows.Beliefs
	second  second.Judge

	leased *lease.Finding
	live   *liveness.Run
	worked *resource.Log
}

func newRecord(h *history.History) *record {
	r := facts.Read(h)
	return &record{Facts: r, beliefs: windows.New(r), second: second.New(r)}
}

func (r *record) lease() lease.Finding {
	if r.leased == nil {
		found := lease.Judge(r.Facts, r.beliefs)
		r.leased = &found
	}
	return *r.leased
}

func (r *record) liveness() *liveness.Run {
	if r.live == nil {
		r.live = liveness.Read(r.Facts, r.beliefs)
	}
	return r.live
}

func (r *record) log() *resource.Log {
	if r.worked == nil {
		r.worked = resource.Read(r.Facts)
	}
	return r.worked
}
