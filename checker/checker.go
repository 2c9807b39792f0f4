package checker

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/checker/second"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

// properties is the one table of them, in the order of reports.
var properties = []property{
	{MutualExclusion, safety, mutualExclusion},
	{LeaseLinearizable, safety, func(r *record) Result { return r.lease().Result() }},
	{ResourceSafety, safety, func(r *record) Result { return r.log().Safety() }},
	{FencingOrder, safety, func(r *record) Result { return r.log().FencingOrder() }},
	{ValidOnReturn, safety, func(r *record) Result { return validOnReturn(r.Facts) }},
	{DeadlockFreedom, lives, func(r *record) Result { return r.liveness().DeadlockFreedom() }},
	{FaultTolerance, lives, func(r *record) Result { return r.liveness().FaultTolerance() }},
	{BoundedHold, lives, func(r *record) Result { return boundedHold(r.Facts) }},
	{HolderTold, safety, holderTold},
}

// A safety property says that nothing bad happens, whatever the faults; liveness
// that something good does, where the faults allow it.
const (
	safety = false
	lives  = true
)

type property struct {
	name  string
	lives bool
	judge func(*record) Result
}

// Liveness reports whether a property is one of liveness rather than of safety.
func Liveness(name string) bool {
	return slices.ContainsFunc(properties, func(p property) bool { return p.name == name && p.lives })
}

// Properties lists the names of all properties in the order of reports.
func Properties() []string {
	var names []string
	for _, p := range properties {
		names = append(names, p.name)
	}
	return names
}

// Check judges a history by the named properties, or by all if none is named.
func Check(h *history.History, names ...string) (v Verdict) {
	if len(names) == 0 {
		names = Properties()
	}
	if len(names) > 1 && !h.Params.Untold { // it would say of nearly every lock that it isn't about it
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == HolderTold })
	}
	defer func() {
		if p := recover(); p != nil {
			v = nothing(h, names, fmt.Sprintf("the checker failed: %v", p))
		}
	}()
	r := newRecord(h)
	if text, hit := unplanned(r.Facts); hit {
		v = nothing(h, names, text)
		v.Assumption, v.Unplanned = text, true
		if r.Malformed == "" {
			v.Numbers, v.Words = numbers(r)
		}
		return v
	}
	if r.Malformed != "" {
		v = nothing(h, names, "the history is malformed: "+r.Malformed)
		v.Assumption = r.Malformed
		return v
	}
	vacuous := vacuous(r.Facts)
	if len(r.Lacks) > 0 { // what Redis would have answered otherwise shows nothing
		v = nothing(h, names, "the run is vacuous: "+vacuous)
		v.Assumption = vacuous
		v.Numbers, v.Words = numbers(r)
		return v
	}
	v = Verdict{Schema: verdict.Schema, Cut: h.Cut}
	v.Numbers, v.Words = numbers(r)
	late := latenessOf(r.Facts)
	barren := vacuous != "" && r.Grants == 0 && !r.Params.MayBeIdle
	explained := false // a lock that nobody got, or a call that hung, is why the run is vacuous
	for _, name := range names {
		res := cutShort(r, vacuous, judge(r, name))
		switch {
		case vacuous == "" || h.Cut != "" && !barren:
		case res.Outcome != Violated: // nothing holds in a run that shows nothing
			res = Result{Property: name, Outcome: Undecided, Because: "the run is vacuous: " + vacuous}
		default: // but what was violated was
			explained = explained || barren && Liveness(name) || res.Cause == verdict.Hung
		}
		v.Results = append(v.Results, late.stalled(res))
	}
	if vacuous != "" && (h.Cut == "" || barren) && !explained {
		v.Assumption = vacuous
	}
	v.Second = r.second.Answer(second.Timeout)
	v.Disagreement = disagreement(r, v)
	return v
}

// nothing is a verdict that leaves all undecided.
func nothing(h *history.History, names []string, because string) Verdict {
	v := Verdict{Schema: verdict.Schema, Cut: h.Cut, Second: Undecided}
	for _, name := range names {
		v.Results = append(v.Results, Result{Property: name, Outcome: Undecided, Because: because})
	}
	return v
}

// judge judges by one property. A property that panics has decided nothing.
func judge(r *record, name string) (res Result) {
	defer func() {
		if p := recover(); p != nil {
			res = Result{Outcome: Undecided, Because: fmt.Sprintf("the checker failed: %v", p)}
		}
		res.Property = name
		res = exercised(res)
	}()
	i := slices.IndexFunc(properties, func(p property) bool { return p.name == name })
	if i < 0 {
		return Result{Outcome: Undecided, Because: "there is no such property: try " + strings.Join(Properties(), ", ")}
	}
	return properties[i].judge(r)
}

// cutShort weakens a result as a cut record demands: what was violated stays violated,
// but what the run was to show may have been still to come.
func cutShort(r *record, vacuous string, res Result) Result {
	switch {
	case r.Cut == "" || res.Outcome == Violated:
	case vacuous != "" && (res.Outcome == Holds || res.Outcome == NotExercised):
		res.Outcome = Undecided
		res.Because = fmt.Sprintf("the record is cut (%s), and up to there %s", r.Cut, vacuous)
	default:
		res.Because += fmt.Sprintf("; the record is cut: %s", r.Cut)
	}
	return res
}

// exercised settles what a property came out as by its occasions. What was never put
// to the test does not hold: it was not exercised. A violation was an occasion.
func exercised(res Result) Result {
	switch {
	case res.Outcome == Holds && res.Occasions == 0:
		res.Outcome = NotExercised
	case res.Outcome == Violated:
		res.Occasions = max(res.Occasions, res.Incidents, 1)
	}
	return res
}

// disagreement says where the judges contradict each other, or "": porcupine
// the violations that were found, porcupine lease-linearizable as a whole in
// either direction, and the certificate a verdict that it holds.
func disagreement(r *record, v Verdict) string {
	for _, name := range []string{MutualExclusion, LeaseLinearizable} {
		if why := r.second.Against(v.Result(name)); why != "" {
			return why
		}
	}
	first := v.Result(LeaseLinearizable)
	if first == nil || first.Outcome == Undecided {
		return ""
	}
	answer := first.Outcome.Answer()
	if answer == Holds {
		if why := r.lease().Against(); why != "" {
			return fmt.Sprintf("%s is said to hold, but %s", LeaseLinearizable, why)
		}
	}
	if v.Second != Undecided && v.Second != answer {
		return fmt.Sprintf("%s came out as %s, and porcupine answers %s", LeaseLinearizable, first.Outcome, v.Second)
	}
	return ""
}
