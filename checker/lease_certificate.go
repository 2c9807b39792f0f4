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
	inOrder := map[string][]hold{} // of each client with a brief hold, by the first call that shows it
	slices.SortFunc(k.brief, func(a, b hold) int { return cmp.Compare(a.first, b.first) })
	for _, h := range k.brief {
		at := h.from
		if of := inOrder[h.session.Client()]; len(of) > 0 {
			at = max(at, of[len(of)-1].to)
		}
		if firm := around(k.firm, window{from: at, to: at}); firm != nil {
			at = firm.to
		}
		if at > h.to {
			return h.session.Name() + " finds no instant that is free"
		}
		h.from, h.to = at, at
		instants = append(instants, h.window)
		inOrder[h.session.Client()] = append(inOrder[h.session.Client()], h)
	}
	slices.SortFunc(instants, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	for _, spans := range [][]window{k.firm, instants} {
		for _, w := range spans {
			if why := w.unexplained(k.operations(w.session)); why != "" {
				return w.session.Name() + ": " + why
			}
		}
	}
	if why := k.outOfOrder(inOrder); why != "" {
		return why
	}
	return together(k.firm, instants)
}

// outOfOrder says which client of some, with their brief holds, held by a session before
// it did by an earlier one, or "".
func (k *leaseKey) outOfOrder(brief map[string][]hold) string {
	for _, w := range k.firm {
		of, ok := brief[w.session.Client()]
		if !ok {
			continue
		}
		k.evidence.read(k.operations(w.session))
		brief[w.session.Client()] = append(of, hold{window: w, first: k.evidence.first.number()})
	}
	for _, of := range brief {
		slices.SortFunc(of, func(a, b hold) int { return cmp.Compare(a.first, b.first) })
		for i := 1; i < len(of); i++ {
			if of[i-1].to > of[i].from {
				return fmt.Sprintf("%s held before %s, and was called after it", of[i].session.Name(), of[i-1].session.Name())
			}
		}
	}
	return ""
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
// window's span, or that nothing can have ended it there. Each takes effect after
// the one before it, as early as it can.
func (w window) unexplained(ops []leaseOp) string {
	at, lapse := int64(ever), int64(never)
	held, refused, ends := false, false, w.to == never
	for _, o := range ops {
		from, to := max(at, o.call), o.ret
		switch {
		case o.op == history.OpAcquire && o.outcome == history.Info:
			from, to, lapse = w.from, w.from, o.lapse
			if o.call > w.from {
				to = ever
			}
		case o.op == history.OpAcquire:
			from, to, lapse, held = max(from, w.from), min(to, w.from), o.lapse, true
		case o.outcome == history.Fail && held:
			from, refused = max(from, w.to), true
		case o.outcome == history.Fail:
			to = min(to, w.from)
		case o.outcome == history.Info:
			ends = ends || from <= w.to && !o.late && !refused
			continue
		case o.op == history.OpRelease:
			from, to, ends, held = max(from, w.to), min(to, w.to), true, true
		default:
			from, to, lapse, held = max(from, w.from), min(to, w.to), o.lapse, true
		}
		if from > to {
			return fmt.Sprintf("%s %s between %s and %s does not fit a hold from %s to %s",
				o.op, o.outcome, seconds(o.call), seconds(o.ret), seconds(w.from), seconds(w.to))
		}
		if o.op != history.OpAcquire || o.outcome == history.OK {
			at = from
		}
	}
	if !ends && lapse > w.to {
		return "nothing can have ended its hold at " + seconds(w.to)
	}
	return ""
}
