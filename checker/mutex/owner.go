package mutex

import (
	"fmt"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// owner judges by OwnerMutex. A process does one thing after the other, so from the
// return of its acquire to the call of its next release it must have held, and nobody
// else may have. Conversely, where these spans are disjoint, holding exactly them explains
// every answer:
//
//	p0   acquire |==============| release
//	p1                acquire  - - - - |====| release     must begin after p0's has ended
//
// An acquire without an outcome is the last thing that its process does, and need never
// have happened. A release without one may have happened at once.
type owner struct {
	holder *facts.Operation            // the acquire that must hold now, or nil
	left   map[string]*facts.Operation // each process's release that ended its last hold
	stray  map[*facts.Operation]*clash // releases that were called by who did not hold
}

func (w *owner) called(o *facts.Operation) {
	p := o.Call.Process
	switch {
	case acquires(*o):
	case w.holder != nil && w.holder.Call.Process == p:
		w.holder = nil
		if w.left == nil {
			w.left = map[string]*facts.Operation{}
		}
		w.left[p] = o
	case o.Outcome() == history.OK:
		if w.stray == nil {
			w.stray = map[*facts.Operation]*clash{}
		}
		w.stray[o] = w.unheld(o)
	}
}

func (w *owner) returned(o *facts.Operation) *clash {
	switch {
	case !acquires(*o):
		return w.stray[o]
	case w.holder == nil:
		w.holder = o
		return nil
	}
	who := "it"
	if w.holder.Call.Process != o.Call.Process {
		who = w.holder.Call.Process
	}
	return &clash{ops: []facts.Operation{*w.holder, *o}, because: fmt.Sprintf("%s returned ok at %s, and %s held %s since %s: %s had not called release by then",
		named(o), facts.Seconds(o.Return.T), who, o.Call.Key, named(w.holder), who)}
}

// unheld tells of a release by a process that did not hold.
func (w *owner) unheld(o *facts.Operation) *clash {
	c := &clash{ops: []facts.Operation{*o}}
	why := "it had not acquired it"
	if before := w.left[o.Call.Process]; before != nil {
		c.ops = []facts.Operation{*before, *o}
		why = "it had given it back by " + named(before)
	}
	c.because = fmt.Sprintf("%s returned ok at %s, and it did not hold %s: %s", named(o), facts.Seconds(o.Return.T), o.Call.Key, why)
	return c
}
