package outcome

import (
	"strings"

	"lockpick/checker"
	"lockpick/checker/verdict"
)

// Finding is what one cause violated in a run: the property that names the cause, and those that
// were violated along with it.
type Finding struct {
	Judgement
	With []Judgement
}

// Findings groups the violated properties of a run by cause, in the order of the judgements. Two
// holders at once (mutual-exclusion) also show as overlapping leases (lease-linearizable) and, where
// both used the resource, as harm to it (resource-safety); those belong to the same finding. What
// was expected and what was not are different findings.
func (o *Outcome) Findings() (all []Finding) {
next:
	for _, j := range o.Judgements {
		if j.Got != checker.Violated || j.Number != nil {
			continue
		}
		for i := range all {
			if all[i].explains(j) {
				all[i].With = append(all[i].With, j)
				continue next
			}
		}
		all = append(all, Finding{Judgement: j})
	}
	return all
}

// explains reports whether a property was violated by the finding's cause, and expected alike.
func (f Finding) explains(j Judgement) bool {
	switch {
	case f.implies(j):
		return true
	case j.AsExpected != f.AsExpected || j.Expected != f.Expected || j.Control != f.Control:
		return false
	}
	if f.Property == checker.MutualExclusion && (j.Cause == verdict.Overlap || j.Cause == verdict.LockBroken) {
		return true
	}
	return j.Cause != "" && j.Cause == f.Cause && j.Node == f.Node
}

// implies reports whether a property came out as the one it follows did, as expected. Naming it would
// add nothing.
func (f Finding) implies(j Judgement) bool {
	return j.Follows == f.Property && j.AsExpected && f.AsExpected
}

// Names lists the properties, as in "mutual-exclusion, lease-linearizable and resource-safety".
func (f Finding) Names() string {
	names := []string{f.Property}
	for _, j := range f.With {
		if !f.implies(j) {
			names = append(names, j.Property)
		}
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return names[0]
}

// String is a judgement's sentence, about all of the finding's properties.
func (f Finding) String() string {
	j := f.Judgement
	j.Property = f.Names()
	return j.String()
}
