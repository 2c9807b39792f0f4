package campaign

import (
	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

// add counts what came of a run.
func (p *EnvelopePoint) add(property string, seed uint64, o outcome.Outcome) {
	got, cause := judged(property, o)
	switch got {
	case verdict.Violated:
		p.Broke++
		if p.Broke == 1 {
			p.Seed, p.Cause = seed, cause
		}
	case verdict.NotExercised:
		p.Idle++
	case verdict.Holds:
	default:
		p.Failed++
		if p.Error == "" {
			p.Error = o.Error
		}
	}
}

// judged is what a run says of a property.
func judged(property string, o outcome.Outcome) (got verdict.Outcome, cause string) {
	if property == Availability {
		grants, measured := o.Numbers["grants"]
		switch {
		case !measured:
			return verdict.Undecided, ""
		case grants == 0:
			return verdict.Violated, ""
		}
		return verdict.Holds, ""
	}
	for _, j := range o.Judgements {
		if j.Property == property && j.Number == nil {
			return j.Got, j.Cause
		}
	}
	return verdict.Undecided, ""
}
