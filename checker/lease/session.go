package lease

import (
	"cmp"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
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
	spans.Window
	firm  bool
	first *history.Event // the first call that shows it
}

// byFirst puts holds of one client in its own order.
func byFirst(a, b hold) int { return cmp.Compare(a.first.N, b.first.N) }

// conflict is one such way, with what proves it.
type conflict struct {
	kind     string
	sessions []*facts.Session
	ops      []leaseOp
	From, To int64
}

// overlap is that of two firm holds.
func overlap(o spans.Overlap) *conflict {
	return &conflict{kind: verdict.Overlap, sessions: []*facts.Session{o.A.Session, o.B.Session}, From: o.From, To: o.To}
}

// holdOf finds when a session held by its evidence, and against false whether it
// need ever have. What contradicts itself is a conflict; with lost-early comes
// the hold besides, up to when its client was told.
func (e *evidence) holdOf(s *facts.Session) (h hold, held bool, against *conflict) {
	contrary := func(kind string, from, to int64, ops ...leaseOp) *conflict {
		return &conflict{kind: kind, sessions: []*facts.Session{s}, ops: ops, From: from, To: to}
	}
	switch {
	case e.first == nil:
		return h, false, nil
	case e.failed:
		return h, false, contrary(verdict.Phantom, e.first.call, e.first.ret, *e.first)
	case e.again != nil && e.again.op == history.OpRelease:
		return h, false, contrary(verdict.DoubleRelease, e.released.call, e.again.ret, *e.released, *e.again)
	case e.again != nil:
		return h, false, contrary(verdict.HeldAfter, e.released.ret, e.again.call, append(e.fixes(), *e.again)...)
	}
	from := e.first.ret
	to, _, _ := e.earliestEnd()
	h = hold{spans.Window{From: from, To: to, Session: s}, from < to, e.first.Call}
	if !h.firm {
		h.From, h.To = to, from
	}
	no := e.refused
	if no == nil || !e.between && to <= no.ret {
		return h, true, nil
	}
	if !e.between { // from then on nobody need have been kept out
		h.To, h.firm = no.ret, from < no.ret
	}
	return h, h.firm, contrary(verdict.LostEarly, no.call, no.ret, append(e.fixes(), *no)...)
}

// evidence is a session's operations by what they show, in the order in which its
// client called them: that one came after the other is certain, whatever the stamps.
// So who was told "not held" held no more from then on, unless its acquire had no
// answer and may take effect later.
type evidence struct {
	failed      bool     // the acquire
	acquire     *leaseOp // nil: it failed
	first, last *leaseOp // that show that it held: the acquire, an extension or a release
	extended    *leaseOp // the last extension
	released    *leaseOp
	again       *leaseOp // the first that shows that it held after it was released
	refused     *leaseOp // the first "not held" after one that shows that it held
	between     bool     // and before another such one
	perhaps     *leaseOp // the first release of unknown outcome before that, which may have ended it
	answers     int      // of extensions and releases
	unanswered  int      // extensions and releases without a definite answer
}

func (e *evidence) read(ops []leaseOp) {
	*e = evidence{failed: true}
	for i := range ops {
		o := &ops[i]
		switch {
		case o.op == history.OpAcquire:
			e.failed, e.acquire = false, o
			if o.outcome == history.OK {
				e.shows(o)
			}
		case o.outcome == history.Info:
			e.unanswered++
			if e.perhaps == nil && e.refused == nil && !o.late {
				e.perhaps = o
			}
		case o.outcome == history.Fail:
			e.answers++
			if e.first != nil && e.released == nil && e.refused == nil {
				e.refused = o
			}
		default:
			e.answers++
			e.shows(o)
		}
	}
}

// shows enters an operation that shows that the session held.
func (e *evidence) shows(o *leaseOp) {
	e.between = e.between || e.refused != nil
	if e.released != nil {
		if e.again == nil {
			e.again = o
		}
		return
	}
	if e.first == nil {
		e.first = o
	}
	e.last = o
	switch o.op {
	case history.OpExtend:
		e.extended = o
	case history.OpRelease:
		e.released = o
	}
}

// earliestEnd is the earliest instant at which the hold can have ended: not before the
// last call that shows it, nor before something could end it.
func (e *evidence) earliestEnd() (to int64, by, with *leaseOp) {
	shown := e.last.call
	if e.released != nil {
		return shown, e.released, nil
	}
	by = e.extended // which sets the lapse
	if by == nil {
		by = e.acquire
	}
	end := by.lapse
	if e.perhaps != nil && e.perhaps.call < end {
		end, with = e.perhaps.call, e.perhaps
	}
	if shown > end {
		return shown, e.last, nil
	}
	return end, by, with
}

// fixes is the acquire and what else fixed the begin and the end.
func (e *evidence) fixes() []leaseOp {
	ops := []leaseOp{*e.acquire}
	_, by, with := e.earliestEnd()
	for _, o := range []*leaseOp{e.first, by, with} {
		if o != nil {
			ops = append(ops, *o)
		}
	}
	return ops
}
