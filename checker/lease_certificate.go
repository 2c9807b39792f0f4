package checker

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/harness/history"
)

// uncertified says what a verdict that lease-linearizable holds leaves
// unexplained, or "". It gives each session that must have held one span, firm
// ones what is forced and brief ones the first instant that is free, and asks of
// every operation by itself whether it fits. It relies on nothing that was found
// but those spans, so a mistake in the finding shows here.
func (k leaseKey) uncertified() string {
	var firm []window
	for i, h := range k.holds {
		if h.firm {
			firm = append(firm, window{from: h.from, to: h.to, session: h.session, index: i})
		}
	}
	slices.SortFunc(firm, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	var spans []window
	for _, h := range k.holds {
		w := window{from: h.from, to: h.to, session: h.session}
		if !h.firm {
			at := h.from
			if around := around(firm, &hold{from: at, to: at}); around != nil {
				at = around.to
			}
			if at > h.to {
				return h.session.name + " finds no instant that is free"
			}
			w.from, w.to = at, at
		}
		if why := w.unexplained(h.ops); why != "" {
			return h.session.name + ": " + why
		}
		spans = append(spans, w)
	}
	slices.SortFunc(spans, func(a, b window) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	for i := 1; i < len(spans); i++ {
		if spans[i-1].to > spans[i].from {
			return fmt.Sprintf("%s and %s hold at once", spans[i-1].session.name, spans[i].session.name)
		}
	}
	return ""
}

// unexplained says which operation of a session does not fit a hold of the
// window's span, or that nothing can have ended it there.
func (w window) unexplained(ops []leaseOp) string {
	ends := w.to == never
	var extended []leaseOp
	var lapse, called int64 = never, w.from
	for _, o := range ops {
		fits := true
		switch {
		case o.op == history.OpAcquire:
			fits, lapse = o.call <= w.from && w.from <= o.ret, o.lapse
		case o.outcome == history.Fail:
			fits = o.call <= w.from || w.to <= o.ret
		case o.op == history.OpRelease && o.outcome == history.OK:
			fits = o.call <= w.to && w.to <= o.ret
			ends = true
		case o.op == history.OpRelease:
			ends = ends || o.call <= w.to
		case o.outcome == history.OK:
			fits = o.call <= w.to && w.from <= o.ret
			extended, called = append(extended, o), max(called, o.call)
		}
		if !fits {
			return fmt.Sprintf("%s %s between %s and %s does not fit a hold from %s to %s",
				o.op, o.outcome, seconds(o.call), seconds(o.ret), seconds(w.from), seconds(w.to))
		}
	}
	ends = ends || len(extended) == 0 && lapse <= w.to
	for _, x := range extended { // the last to take effect set the lapse
		ends = ends || x.ret >= called && x.lapse <= w.to
	}
	if !ends {
		return "nothing can have ended its hold at " + seconds(w.to)
	}
	return ""
}
