package lease

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// verifyCertificate returns what contradicts the result that lease-linearizable holds, or "". It
// assigns a span to each session that must have held the lock: the required span to a firm hold,
// and the first free instant to a brief hold. Then it checks each operation on its own against
// these spans. It uses no other result of the search, so it detects mistakes in the search.
func (k *leaseKey) verifyCertificate() string {
	instants := make([]spans.Window, 0, len(k.brief))
	inOrder := map[string][]hold{} // brief holds by client, ordered by the first call that shows them
	slices.SortFunc(k.brief, compareFirst)
	for _, h := range k.brief {
		at := h.From
		if of := inOrder[h.Session.Client()]; len(of) > 0 {
			at = max(at, of[len(of)-1].To)
		}
		if firm := enclosingWindow(k.firm, spans.Window{From: at, To: at}); firm != nil {
			at = firm.To
		}
		if at > h.To {
			return h.Session.Name() + " has no free instant"
		}
		h.From, h.To = at, at
		instants = append(instants, h.Window)
		inOrder[h.Session.Client()] = append(inOrder[h.Session.Client()], h)
	}
	slices.SortFunc(instants, func(a, b spans.Window) int { return cmp.Compare(a.From, b.From) })
	for _, list := range [][]spans.Window{k.firm, instants} {
		for _, w := range list {
			if why := findUnexplained(w, k.operations(w.Session)); why != "" {
				return w.Session.Name() + ": " + why
			}
		}
	}
	if why := k.findDisorder(inOrder); why != "" {
		return why
	}
	return overlappingHolds(k.firm, instants)
}

// findDisorder describes a client that held the lock first in a later session and then in an
// earlier one. It returns "" if there is none. briefByClient contains the clients to check, with their
// brief holds.
func (k *leaseKey) findDisorder(brief map[string][]hold) string {
	for _, w := range k.firm {
		of, ok := brief[w.Session.Client()]
		if !ok {
			continue
		}
		k.evidence.read(k.operations(w.Session))
		brief[w.Session.Client()] = append(of, hold{Window: w, first: k.evidence.first.Call})
	}
	for _, of := range brief {
		slices.SortFunc(of, compareFirst)
		for i := 1; i < len(of); i++ {
			if of[i-1].To > of[i].From {
				return fmt.Sprintf("%s held the lock before %s, but was called after it", of[i].Session.Name(), of[i-1].Session.Name())
			}
		}
	}
	return ""
}

// overlappingHolds describes two spans that share more than an endpoint. It returns "" if there are
// none. Both lists must be sorted.
func overlappingHolds(firm, instants []spans.Window) string {
	for i := 1; i < len(firm); i++ {
		if firm[i-1].To > firm[i].From {
			return fmt.Sprintf("%s and %s hold the lock at the same time", firm[i-1].Session.Name(), firm[i].Session.Name())
		}
	}
	for _, at := range instants {
		for len(firm) > 0 && firm[0].To <= at.From {
			firm = firm[1:]
		}
		if len(firm) > 0 && firm[0].From < at.From {
			return fmt.Sprintf("%s and %s hold the lock at the same time", firm[0].Session.Name(), at.Session.Name())
		}
	}
	return ""
}

// findUnexplained describes an operation that does not fit a hold during the window, or says that
// nothing can have ended the hold at the end of the window. It returns "" if everything is
// explained. Each operation takes effect after the preceding one, as early as possible.
func findUnexplained(w spans.Window, ops []leaseOp) string {
	at, lapse := int64(spans.DistantPast), int64(facts.Never)
	held, refused, ends := false, false, w.To == facts.Never
	for _, o := range ops {
		from, to := max(at, o.call), o.ret
		switch {
		case o.op == history.OpAcquire && o.outcome == history.Info:
			from, to, lapse = w.From, w.From, o.lapse
			if o.call > w.From {
				to = spans.DistantPast
			}
		case o.op == history.OpAcquire:
			from, to, lapse, held = max(from, w.From), min(to, w.From), o.lapse, true
		case o.outcome == history.Fail && held:
			from, refused = max(from, w.To), true
		case o.outcome == history.Fail:
			to = min(to, w.From)
		case o.outcome == history.Info:
			ends = ends || from <= w.To && !o.late && !refused
			continue
		case o.op == history.OpRelease:
			from, to, ends, held = max(from, w.To), min(to, w.To), true, true
		default:
			from, to, lapse, held = max(from, w.From), min(to, w.To), o.lapse, true
		}
		if from > to {
			return fmt.Sprintf("%s %s between %s and %s does not fit a hold from %s to %s",
				o.op, o.outcome, facts.Seconds(o.call), facts.Seconds(o.ret), facts.Seconds(w.From), facts.Seconds(w.To))
		}
		if o.op != history.OpAcquire || o.outcome == history.OK {
			at = from
		}
	}
	if !ends && lapse > w.To {
		return "nothing can have ended its hold at " + facts.Seconds(w.To)
	}
	return ""
}
