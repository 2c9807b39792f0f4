// Package sequence tells what happened as a sequence diagram.
//
// Tell draws up a Diagram, which is plain data: lanes, arrows, bars, notes and the
// story in sentences, all of them facts of the history. Text draws a Diagram in a
// terminal; any other form is another function of a Diagram.
//
// Deliberately missing: judging. What is drawn follows the verdict's witness, and
// where nothing is violated, the first fault.
package sequence

import (
	"strings"

	"lockpick/checker"
	"lockpick/harness/history"
)

// Of draws up the part of a run that matters: of the violation r, from the
// earlier session's acquire to the end of the harm; where r is nil or has no
// witness, of the sessions that the first fault touched. It takes any history.
func Of(h *history.History, r *checker.Result) Diagram {
	sc := newScene(newCourse(h), r)
	b := &builder{f: sc.f, scene: sc, lanes: lanesOf(sc), sheet: &sheet{from: sc.from, to: sc.to, slow: sc.f.slow()}}
	for _, s := range b.scene.focus {
		b.drawAcquire(s)
		b.drawWork(s)
		b.drawLease(s)
	}
	for _, s := range b.scene.extra {
		b.drawAcquire(s)
		b.drawLease(s)
	}
	b.drawDeletions()
	b.drawFaults()
	b.drawLosses()
	b.drawOverlap()
	return b.diagram()
}

// DefaultWidth is how many characters wide a drawing is where no terminal says otherwise.
const DefaultWidth = 100

// Tell draws up the first violation that has a witness, or what happened around the
// first fault. Where nothing could be decided, it says why.
func Tell(h *history.History, v checker.Verdict) Diagram {
	d := Of(h, Shown(v))
	if v.ShowsNothing() {
		d.Title = strings.TrimSuffix(d.Title, nothingShown) + "undecided"
		d.Caption = append([]string{"Nothing could be decided: " + v.Assumption + "."}, d.Caption...)
	}
	return d
}

// Shown is the result that a diagram is about: the first violated one with a
// witness, or nil.
func Shown(v checker.Verdict) *checker.Result {
	for i := range v.Results {
		if r := &v.Results[i]; r.Outcome == checker.Violated && r.Witness != nil {
			return r
		}
	}
	return nil
}
