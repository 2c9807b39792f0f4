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
func (k *leaseKey) uncertified() string {
	instants := make([]window, 0, len(k.brief))
	for _, h := range k.brief {
		at := h.from
		if firm := around(k.firm, window{from: at, to: at}); firm != nil {
			at = firm.to
		}
		if at > h.to {
			return h.session.Name() + " finds no instant that is free"
		}
		instants = append(instants, window{from: at, to: at, session: h.session})
	}
	slices.SortFunc(instants, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	for _, spans := range [][]window{k.firm, instants} {
		for _, w := range spans {
			if why := w.unexplained(k.operations(w.session)); why != "" {
				return w.session.Name() + ": " + why
			}
		}
	}
	return together(k.firm, instants)
}

// together says which two of the spans have more than an end in common, or "".
// Both lists are in the order of time.
func together(firm, instants []window) string {
	for i := 1; i < len(firm); i++ {
		if firm[i-1].to > firm[i].from {
			return fmt.Sprintf("%s and %s hold at once", firm[i-1].session.Name(), firm[i].session.Name())
		}
	}
	for _, at := range instants {
		for len(firm) > 0 && firm[0].to <= at.from {
			firm = firm[1:]
		}
		if len(firm) > 0 && firm[0].from < at.from {
			return fmt.Sprintf("%s and %s hold at once", firm[0].session.Name(), at.session.Name())
		}
	}
	return ""
}

// unexplained says which operation of a session does not fit a hold of the
// window's span, or that nothing can have ended it there.
func (w window) unexplained(ops []leaseOp) string {
	ends := w.to == never
	var extended []leaseOp // rarely any
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
