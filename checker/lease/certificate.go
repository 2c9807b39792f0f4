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
	instants := make([]spans.Window, 0, len(k.briefHolds))
	briefByClient := map[string][]hold{} // brief holds by client, ordered by the first call that shows them
	slices.SortFunc(k.briefHolds, compareFirst)
	for _, h := range k.briefHolds {
		at := h.From
		if clientHolds := briefByClient[h.Session.Client()]; len(clientHolds) > 0 {
			at = max(at, clientHolds[len(clientHolds)-1].To)
		}
		if enclosing := enclosingWindow(k.firmHolds, spans.Window{From: at, To: at}); enclosing != nil {
			at = enclosing.To
		}
		if at > h.To {
			return h.Session.Name() + " has no free instant"
		}
		h.From, h.To = at, at
		instants = append(instants, h.Window)
		briefByClient[h.Session.Client()] = append(briefByClient[h.Session.Client()], h)
	}
	slices.SortFunc(instants, func(a, b spans.Window) int { return cmp.Compare(a.From, b.From) })
	for _, list := range [][]spans.Window{k.firmHolds, instants} {
		for _, w := range list {
			if reason := findUnexplained(w, k.operations(w.Session)); reason != "" {
				return w.Session.Name() + ": " + reason
			}
		}
	}
	if reason := k.findDisorder(briefByClient); reason != "" {
		return reason
	}
	return overlappingHolds(k.firmHolds, instants)
}

// findDisorder describes a client that held the lock first in a later session and then in an
// earlier one. It returns "" if there is none. briefByClient contains the clients to check, with their
// brief holds.
func (k *leaseKey) findDisorder(briefByClient map[string][]hold) string {
	for _, w := range k.firmHolds {
		clientHolds, ok := briefByClient[w.Session.Client()]
		if !ok {
			continue
		}
		k.evidence.read(k.operations(w.Session))
		briefByClient[w.Session.Client()] = append(clientHolds, hold{Window: w, first: k.evidence.firstProof.Call})
	}
	for _, clientHolds := range briefByClient {
		slices.SortFunc(clientHolds, compareFirst)
		for i := 1; i < len(clientHolds); i++ {
			if clientHolds[i-1].To > clientHolds[i].From {
				return fmt.Sprintf("%s held the lock before %s, but was called after it", clientHolds[i].Session.Name(), clientHolds[i-1].Session.Name())
			}
		}
	}
	return ""
}

// overlappingHolds describes two spans that share more than an endpoint. It returns "" if there are
// none. Both lists must be sorted.
func overlappingHolds(firmHolds, instants []spans.Window) string {
	for i := 1; i < len(firmHolds); i++ {
		if firmHolds[i-1].To > firmHolds[i].From {
			return fmt.Sprintf("%s and %s hold the lock at the same time", firmHolds[i-1].Session.Name(), firmHolds[i].Session.Name())
		}
	}
	for _, at := range instants {
		for len(firmHolds) > 0 && firmHolds[0].To <= at.From {
			firmHolds = firmHolds[1:]
		}
		if len(firmHolds) > 0 && firmHolds[0].From < at.From {
			return fmt.Sprintf("%s and %s hold the lock at the same time", firmHolds[0].Session.Name(), at.Session.Name())
		}
	}
	return ""
}

// findUnexplained describes an operation that does not fit a hold during the window, or says that
// nothing can have ended the hold at the end of the window. It returns "" if everything is
// explained. Each operation takes effect after the preceding one, as early as possible.
func findUnexplained(w spans.Window, ops []leaseOp) string {
	at, lapse := int64(spans.DistantPast), int64(facts.Never)
	held, refused, hasEnd := false, false, w.To == facts.Never
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
			hasEnd = hasEnd || from <= w.To && !o.late && !refused
			continue
		case o.op == history.OpRelease:
			from, to, hasEnd, held = max(from, w.To), min(to, w.To), true, true
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
	if !hasEnd && lapse > w.To {
		return "nothing can have ended its hold at " + facts.Seconds(w.To)
	}
	return ""
}
