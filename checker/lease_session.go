package checker

import (
	"math"

	"lockpick/harness/history"
)

// hold is what a session's answers say of when it held its lock. A handle is
// acquired once, so in any order that explains the answers it holds one span:
//
//	acquire call          returns           first release, or earliest lapse
//	     |------------------|====================|- - - - - - - - -
//	   earliest begin      from      must       to   may
//
// The span begins by the first return that shows holding, and lasts to the last
// call that shows it, or longer where nothing could have ended it before. If
// from < to it is firm: the session held throughout. Otherwise it is brief, and
// one instant between them is enough (from and to are then its bounds).
type hold struct {
	session  *session
	ops      []leaseOp
	from, to int64
	firm     bool
	fixes    []leaseOp // the acquire, and what fixed from and to
}

// Ways in which no lease lock could have given a session's answers.
const (
	Overlap       = "overlap"             // two sessions must both have held
	Buried        = "buried"              // a session's every possible instant is inside what another held
	Phantom       = "phantom"             // it held what it had not acquired
	DoubleRelease = "double-release"      // it gave back twice
	HeldBefore    = "held-before-acquire" // it held before its acquire was called
	HeldAfter     = "held-after-release"  // it held after its release had returned
	LostEarly     = "lost-early"          // "not held", though nothing could have ended its lease by then
)

// conflict is one such way, with what proves it.
type conflict struct {
	kind     string
	sessions []*session
	ops      []leaseOp
	from, to int64
}

// holdOf finds when a session held. It is nil where the session need never have.
// With lost-early come both, the hold and the conflict.
func holdOf(s *session, ops []leaseOp) (*hold, *conflict) {
	e := readEvidence(ops)
	against := func(kind string, from, to int64, ops ...leaseOp) *conflict {
		return &conflict{kind: kind, sessions: []*session{s}, ops: ops, from: from, to: to}
	}
	switch {
	case e.acquire == nil && len(e.yes) > 0:
		return nil, against(Phantom, e.yes[0].call, e.yes[0].ret, e.yes[0])
	case e.acquire == nil, e.acquire.outcome == history.Info && len(e.yes) == 0:
		return nil, nil
	case len(e.released) > 1:
		return nil, against(DoubleRelease, e.released[0].call, e.released[1].ret, e.released[:2]...)
	}
	from, begun := e.begun()
	to, ended := e.earliestEnd()
	h := &hold{session: s, ops: ops, from: from, to: to, firm: from < to, fixes: append(begun, ended...)}
	latest := int64(never)
	if len(e.released) > 0 {
		latest = e.released[0].ret
	}
	switch {
	case from < e.acquire.call:
		return nil, against(HeldBefore, from, e.acquire.call, begun...)
	case to > latest:
		return nil, against(HeldAfter, latest, to, append(h.fixes, e.released...)...)
	case !h.firm:
		h.from, h.to = max(e.acquire.call, to), from
		return h, nil
	}
	for _, n := range e.no {
		if n.call > from && n.ret < to {
			return h, against(LostEarly, n.call, n.ret, append(h.fixes, n)...)
		}
	}
	return h, nil
}

// evidence is a session's operations by what they show.
type evidence struct {
	acquire  *leaseOp  // nil: it failed
	yes      []leaseOp // it held: extended, or released
	extended []leaseOp // of these
	released []leaseOp // of these
	no       []leaseOp // it did not hold
	perhaps  *leaseOp  // the earliest release of unknown outcome, which may have ended it
}

func readEvidence(ops []leaseOp) evidence {
	var e evidence
	for i := range ops {
		o := &ops[i]
		switch {
		case o.op == history.OpAcquire:
			e.acquire = o
		case o.outcome == history.Fail:
			e.no = append(e.no, *o)
		case o.outcome == history.Info:
			if e.perhaps == nil || o.call < e.perhaps.call {
				e.perhaps = o
			}
		default:
			e.yes = append(e.yes, *o)
			if o.op == history.OpExtend {
				e.extended = append(e.extended, *o)
			} else {
				e.released = append(e.released, *o)
			}
		}
	}
	return e
}

// begun is the latest instant at which the hold can have begun.
func (e evidence) begun() (int64, []leaseOp) {
	from, fixes := e.acquire.ret, []leaseOp{*e.acquire}
	for _, y := range e.yes {
		if y.ret < from {
			from, fixes = y.ret, []leaseOp{*e.acquire, y}
		}
	}
	return from, fixes
}

// earliestEnd is the earliest instant at which the hold can have ended: not
// before the last call that shows it, nor before something could end it.
func (e evidence) earliestEnd() (int64, []leaseOp) {
	shown, fixes := int64(math.MinInt64), []leaseOp(nil)
	for _, y := range e.yes {
		if y.call > shown {
			shown, fixes = y.call, []leaseOp{y}
		}
	}
	if len(e.released) > 0 { // that ended it, and is among what shows it
		return shown, append(fixes, e.released...)
	}
	end, by := e.earliestLapse()
	if e.perhaps != nil && e.perhaps.call < end {
		end, by = e.perhaps.call, append(by, *e.perhaps)
	}
	if shown > end {
		return shown, fixes
	}
	return end, by
}

// earliestLapse is the earliest instant at which the lease can have lapsed: what
// the last extension claimed. Which of those that overlap was the last nobody
// knows, so any that returned after all had been called may be. That the hold
// lasted until then, earliestEnd sees to.
func (e evidence) earliestLapse() (int64, []leaseOp) {
	if len(e.extended) == 0 {
		return e.acquire.lapse, []leaseOp{*e.acquire}
	}
	called := e.lastExtended()
	end, by := int64(never), []leaseOp(nil)
	for _, x := range e.extended {
		if x.ret >= called.call && (by == nil || x.lapse < end) {
			end, by = x.lapse, []leaseOp{x}
		}
	}
	return end, by
}

// lastExtended is the extension that was called last.
func (e evidence) lastExtended() leaseOp {
	last := e.extended[0]
	for _, x := range e.extended[1:] {
		if x.call > last.call {
			last = x
		}
	}
	return last
}
