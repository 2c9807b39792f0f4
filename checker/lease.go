package checker

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"lockpick/harness/history"
)

// leaseLinearizable asks whether one lease lock could have given the answers in
// a history. It decides exactly, in O(n log n):
//
//	acquire ok    free → held        release ok    held → free
//	extend ok     held → held        release or extend fail    not held by the caller
//	unknown       took effect at some time after its call, or never
//	lapse         held → free at any time from the deadline, or never
//
// Each session's answers force a span in which it held (lease_session.go). The
// spans that are forced are disjoint in any order that explains the answers, so
// an overlap is a violation. Conversely, where they are disjoint, holding exactly
// the forced spans explains every answer: the rest asks only for a later begin
// or an earlier end. lease_certificate.go verifies just that.
//
// Each answer that could have contradicted another is an occasion: an extension's and a
// release's, and an acquire's that was under way while another session must have held.
//
// A client's own operations are in their order whatever their stamps say, also where it
// has several sessions of the lock (lease_handles.go): a brief hold comes after what its
// client must have held before. Equal stamps of different clients are concurrent.
func leaseLinearizable(r *record) Result {
	holds, answers, incidents := 0, 0, 0
	var worst *conflict
	for _, k := range r.leases() {
		holds += k.holds
		answers += k.occasions
		incidents += k.incidents
		if worse(k.worst, worst) {
			worst = k.worst
		}
	}
	if worst == nil {
		return Result{
			Outcome: Holds, Occasions: answers,
			Because: fmt.Sprintf("one lease lock could have given these answers, in %s", plural(holds, "hold")),
		}
	}
	return Result{
		Outcome: Violated, Occasions: answers, Incidents: incidents, Cause: worst.kind,
		Because: worst.because(r), Witness: worst.witness(r),
	}
}

// leaseKey is what was found about one key.
type leaseKey struct {
	firm      []window // when sessions must have held, in the order of their begin
	brief     []hold   // where they must have held for an instant
	holds     int      // sessions that must have held
	occasions int      // answers that could have contradicted another
	incidents int      // connected components of firm holds that overlap, and each other conflict
	worst     *conflict
	doubt     string // what the certificate leaves unexplained, if nothing is in conflict

	operations func(*session) []leaseOp
	evidence   evidence
	handles    *handles // nil: each client used its last handle only
}

// leases judges each key, once.
func (r *record) leases() []leaseKey {
	if r.leased != nil {
		return r.leased
	}
	r.leased = []leaseKey{}
	for _, l := range r.Locks {
		k := r.lease(l)
		k.occasions += r.meetings(l, k.firm)
		if k.worst == nil {
			k.doubt = k.uncertified()
		}
		r.windows, r.windowed = k.firm, nil
		k.firm = nil // the next key's
		r.leased = append(r.leased, *k)
	}
	return r.leased
}

// lease judges one key. Its firm holds are good until the next is judged.
func (r *record) lease(l *lock) *leaseKey {
	k := &leaseKey{operations: r.operationsOf, firm: slices.Grow(r.windows[:0], r.Grants)}
	alone := map[*session]*conflict{}
	if r.Interleaved {
		k.handles = r.handlesOf(l.Sessions())
		k.operations = func(s *session) []leaseOp { return k.handles.mark(s, r.operationsOf(s)) }
		alone = k.handles.mixed
	}
	k.judge(l.Sessions(), alone)
	if k.worst != nil && k.handles != nil {
		k.handles.explain(k.worst, k.operations)
	}
	return k
}

// judge judges one key by its sessions' operations. alone is sessions that contradict
// themselves, or others of their client.
func (k *leaseKey) judge(ss iter.Seq[*session], alone map[*session]*conflict) {
	for s := range ss {
		k.evidence.read(k.operations(s))
		h, held, against := k.evidence.holdOf(s)
		switch {
		case held && h.firm:
			k.firm = append(k.firm, h.window)
		case held:
			k.brief = append(k.brief, h)
		}
		if held || against != nil {
			k.holds++
			k.occasions += k.evidence.answers
		}
		if against != nil {
			alone[s] = against
		}
	}
	k.follow(ss)
	inOrder(k.firm)
	o := overlaps{end: never}
	o.sweep(k.firm)
	k.incidents = o.incidents
	if o.incidents > 0 {
		k.worst = &conflict{kind: Overlap, sessions: []*session{o.a.session, o.b.session}, from: o.from, to: o.to}
		for _, s := range overlapping(k.firm) { // who lost early because another got in is no harm more
			delete(alone, s)
		}
	} else {
		k.bury(alone)
	}
	k.incidents += len(alone)
	if len(alone) > 0 {
		for s := range ss {
			if c := alone[s]; c != nil && worse(c, k.worst) {
				k.worst = c
			}
		}
	}
	if k.worst != nil && len(k.worst.sessions) == 2 {
		k.prove(k.worst)
	}
}

// prove adds what fixes the holds of two sessions that are in conflict.
func (k *leaseKey) prove(c *conflict) {
	for _, s := range c.sessions {
		k.evidence.read(k.operations(s))
		c.ops = append(c.ops, k.evidence.fixes()...)
	}
}

// overlapping is the sessions whose windows, in the order of their begin, overlap another.
func overlapping(ws []window) []*session {
	var ss []*session
	for i, reached := 0, ws[0].from; i < len(ws); i++ {
		if ws[i].from < reached || i+1 < len(ws) && ws[i+1].from < ws[i].to {
			ss = append(ss, ws[i].session)
		}
		reached = max(reached, ws[i].to)
	}
	return ss
}

// follow puts each brief hold behind what its client must have held before it, by the
// order of its operations. Where that leaves it no instant it is buried there. Another brief
// hold before it leaves it room: the earlier one's instant, for that can't be later than
// the last at which this one may be.
func (k *leaseKey) follow(ss iter.Seq[*session]) {
	if len(k.brief) == 0 {
		return
	}
	firm := k.firmOf(ss)
	for i := range k.brief {
		h := &k.brief[i]
		of := firm[h.session.Client()]
		n, _ := slices.BinarySearchFunc(of, h.first, func(w hold, n int64) int { return cmp.Compare(w.first, n) })
		if n == 0 || of[n-1].to <= h.from {
			continue
		}
		h.from = of[n-1].to
	}
}

// firmOf is the firm holds of each client that has a brief one, in its own order.
func (k *leaseKey) firmOf(ss iter.Seq[*session]) map[string][]hold {
	firm := map[string][]hold{}
	for _, h := range k.brief {
		firm[h.session.Client()] = nil
	}
	for s := range ss {
		of, ok := firm[s.Client()]
		if !ok {
			continue
		}
		k.evidence.read(k.operations(s))
		if h, held, _ := k.evidence.holdOf(s); held && h.firm {
			firm[s.Client()] = append(of, h)
		}
	}
	for _, of := range firm {
		slices.SortFunc(of, func(a, b hold) int { return cmp.Compare(a.first, b.first) })
	}
	return firm
}

// bury finds brief holds that must lie strictly inside a firm one. The firm ones
// are disjoint: only the last that begins before it can contain it.
func (k *leaseKey) bury(alone map[*session]*conflict) {
	for _, h := range k.brief {
		if w := around(k.firm, h.window); w != nil && alone[h.session] == nil {
			alone[h.session] = &conflict{kind: Buried, sessions: []*session{w.session, h.session}, from: min(h.from, h.to), to: h.to}
		}
	}
}

// around is the firm window that a brief hold can't get out of, or nil.
func around(firm []window, h window) *window {
	i, _ := slices.BinarySearchFunc(firm, h.from, func(w window, t int64) int { return cmp.Compare(w.from, t) })
	if i > 0 && h.to < firm[i-1].to {
		return &firm[i-1]
	}
	return nil
}

// worse says which of two conflicts is shown: the longest overlap, else the
// first of the others. Of equals the earliest.
func worse(a, than *conflict) bool {
	switch {
	case a == nil || than == nil:
		return a != nil
	case (a.kind == Overlap) != (than.kind == Overlap):
		return a.kind == Overlap
	case a.kind == Overlap && a.to-a.from != than.to-than.from:
		return a.to-a.from > than.to-than.from
	}
	return a.from < than.from
}

// because tells a conflict in one sentence.
func (c *conflict) because(r *record) string {
	first := c.sessions[0]
	lock := lockName(first.Key())
	from, to := seconds(c.from), seconds(r.recorded(c.from, c.to))
	switch c.kind {
	case Overlap:
		return fmt.Sprintf("%s must both have held %s from %s to %s (%s)", r.pair(first, c.sessions[1]), lock, from, to, seconds(r.recorded(c.from, c.to)-c.from))
	case Buried:
		return fmt.Sprintf("%s held %s at some instant from %s to %s, when %s must have held it throughout",
			c.sessions[1].Name(), lock, from, to, first.Name())
	case Phantom:
		return fmt.Sprintf("%s held %s between %s and %s, though its acquire had failed", first.Name(), lock, from, to)
	case DoubleRelease:
		return fmt.Sprintf("%s gave %s back twice, between %s and %s", first.Name(), lock, from, to)
	case HeldAfter:
		return fmt.Sprintf("%s still held %s at %s, and had given it back before, by %s", first.Name(), lock, to, from)
	}
	return fmt.Sprintf("%s was told between %s and %s that it did not hold %s, and nothing could have ended its lease by then", first.Name(), from, to, lock)
}

func (c *conflict) witness(r *record) *Witness {
	var events []*history.Event
	for _, s := range c.sessions { // a failed acquire is no operation, and proves a phantom
		events = append(events, s.Acquire.Call, s.Acquire.Return)
	}
	for _, o := range c.ops {
		events = append(events, o.operation.Call, o.operation.Return)
	}
	w := &Witness{Events: numbered(events), Key: c.sessions[0].Key(), From: c.from, To: r.recorded(c.from, c.to), of: c.sessions}
	for _, s := range c.sessions {
		w.Sessions = append(w.Sessions, s.Name())
	}
	return w
}

// recorded is the end of a span, for the eye: a lock without a deadline is held for
// ever, and the record ends.
func (r *record) recorded(from, to int64) int64 { return min(to, max(from, r.End)) }
