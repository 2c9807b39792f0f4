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
	window
	firm bool
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

// holdOf finds when a session held by its evidence, and against false whether it
// need ever have. What contradicts itself is a conflict; with lost-early comes
// the hold besides.
func (e *evidence) holdOf(s *session) (h hold, held bool, against *conflict) {
	contrary := func(kind string, from, to int64, ops ...leaseOp) *conflict {
		return &conflict{kind: kind, sessions: []*session{s}, ops: ops, from: from, to: to}
	}
	switch {
	case e.acquire == nil && len(e.yes) > 0:
		return h, false, contrary(Phantom, e.yes[0].call, e.yes[0].ret, *e.yes[0])
	case e.acquire == nil, e.acquire.outcome == history.Info && len(e.yes) == 0:
		return h, false, nil
	case len(e.released) > 1:
		return h, false, contrary(DoubleRelease, e.released[0].call, e.released[1].ret, *e.released[0], *e.released[1])
	}
	from, _ := e.begun()
	to, _, _ := e.earliestEnd()
	h = hold{window{from: from, to: to, session: s}, from < to}
	latest := int64(never)
	if len(e.released) > 0 {
		latest = e.released[0].ret
	}
	switch {
	case from < e.acquire.call:
		return h, false, contrary(HeldBefore, from, e.acquire.call, e.fixes()...)
	case to > latest:
		return h, false, contrary(HeldAfter, latest, to, e.fixes()...)
	case !h.firm:
		h.from, h.to = max(e.acquire.call, to), from
		return h, true, nil
	}
	for _, n := range e.no {
		if n.call > from && n.ret < to {
			return h, true, contrary(LostEarly, n.call, n.ret, append(e.fixes(), *n)...)
		}
	}
	return h, true, nil
}

// evidence is a session's operations by what they show. Its memory is used again
// for the next session.
type evidence struct {
	acquire  *leaseOp   // nil: it failed
	yes      []*leaseOp // it held: extended, or released
	extended []*leaseOp // of these
	released []*leaseOp // of these
	no       []*leaseOp // it did not hold
	perhaps  *leaseOp   // the earliest release of unknown outcome, which may have ended it
}

func (e *evidence) read(ops []leaseOp) {
	*e = evidence{yes: e.yes[:0], extended: e.extended[:0], released: e.released[:0], no: e.no[:0]}
	for i := range ops {
		o := &ops[i]
		switch {
		case o.op == history.OpAcquire:
			e.acquire = o
		case o.outcome == history.Fail:
			e.no = append(e.no, o)
		case o.outcome == history.Info:
			if e.perhaps == nil || o.call < e.perhaps.call {
				e.perhaps = o
			}
		default:
			e.yes = append(e.yes, o)
			if o.op == history.OpExtend {
				e.extended = append(e.extended, o)
			} else {
				e.released = append(e.released, o)
			}
		}
	}
}

// begun is the latest instant at which the hold can have begun, and what else than
// the acquire fixes it, or nil.
func (e *evidence) begun() (from int64, by *leaseOp) {
	from = e.acquire.ret
	for _, y := range e.yes {
		if y.ret < from {
			from, by = y.ret, y
		}
	}
	return from, by
}

// earliestEnd is the earliest instant at which the hold can have ended: not
// before the last call that shows it, nor before something could end it. One or
// two operations fix it.
func (e *evidence) earliestEnd() (to int64, by, with *leaseOp) {
	shown, y := int64(math.MinInt64), (*leaseOp)(nil)
	for _, x := range e.yes {
		if x.call > shown {
			shown, y = x.call, x
		}
	}
	if len(e.released) > 0 { // that ended it, and is among what shows it
		return shown, y, e.released[0]
	}
	end, by := e.earliestLapse()
	if e.perhaps != nil && e.perhaps.call < end {
		end, with = e.perhaps.call, e.perhaps
	}
	if shown > end {
		return shown, y, nil
	}
	return end, by, with
}

// fixes is the acquire and what else fixed the begin and the end.
func (e *evidence) fixes() []leaseOp {
	ops := []leaseOp{*e.acquire}
	_, begun := e.begun()
	_, by, with := e.earliestEnd()
	for _, o := range []*leaseOp{begun, by, with} {
		if o != nil {
			ops = append(ops, *o)
		}
	}
	return ops
}

// earliestLapse is the earliest instant at which the lease can have lapsed: what
// the last extension claimed. Which of those that overlap was the last nobody
// knows, so any that returned after all had been called may be. That the hold
// lasted until then, earliestEnd sees to.
func (e *evidence) earliestLapse() (end int64, by *leaseOp) {
	if len(e.extended) == 0 {
		return e.acquire.lapse, e.acquire
	}
	called := e.lastExtended()
	end = never
	for _, x := range e.extended {
		if x.ret >= called.call && (by == nil || x.lapse < end) {
			end, by = x.lapse, x
		}
	}
	return end, by
}

// lastExtended is the extension that was called last.
func (e *evidence) lastExtended() *leaseOp {
	last := e.extended[0]
	for _, x := range e.extended[1:] {
		if x.call > last.call {
			last = x
		}
	}
	return last
}
