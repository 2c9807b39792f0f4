package checker

import (
	"lockpick/checker/lease"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

// incidents is how each property finds all its violations, where a verdict has their
// number and shows one.
var incidents = map[string]func(*record) []verdict.Incident{
	MutualExclusion: func(r *record) []verdict.Incident {
		if r.Params.Untold {
			return toldOf(untold(r, false))
		}
		return sharedHolds(r)
	},
	HolderTold: func(r *record) []verdict.Incident {
		sure, _ := withoutStalled(r, untold(r, true))
		return toldOf(sure)
	},
	LeaseLinearizable: func(r *record) []verdict.Incident { return lease.Incidents(r.Facts, r.beliefs) },
	ResourceSafety:    func(r *record) []verdict.Incident { return r.log().Harms() },
	FencingOrder:      func(r *record) []verdict.Incident { return r.log().Disorders() },
	ValidOnReturn:     func(r *record) []verdict.Incident { return lateReturns(r.Facts) },
	DeadlockFreedom:   func(r *record) []verdict.Incident { return r.liveness().LateHandovers() },
	FaultTolerance:    func(r *record) []verdict.Incident { return r.liveness().Unavailabilities() },
	BoundedHold:       func(r *record) []verdict.Incident { return longHolds(r.Facts) },
}

// Incidents lists the times that a property was violated which a verdict says is: as many as
// its result counts but no more than so many, in the order of time. Each is told by the
// result that would show it if there were no other. One of them is what the verdict shows,
// but that of mutual exclusion is without its cause.
func Incidents(h *history.History, property string, most int) []Result {
	r := newRecord(h)
	res := judge(r, property)
	switch find := incidents[property]; {
	case r.Malformed != "" || res.Outcome != Violated:
		return nil
	case find == nil || res.Incidents <= 1:
		return []Result{res}
	default:
		return verdict.Told(find(r), most)
	}
}
