package checker

import "fmt"

// disagreement says where the judges contradict each other, or "": porcupine
// the violations that were found, porcupine lease-linearizable as a whole in
// either direction, and the certificate a verdict that it holds.
func disagreement(r *record, v Verdict) string {
	for _, name := range []string{MutualExclusion, LeaseLinearizable} {
		if r.Params.Untold && name == MutualExclusion {
			continue // no lease lock contradicts what nobody was told
		}
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
