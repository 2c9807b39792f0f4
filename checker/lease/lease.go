// Package lease judges lease-linearizability: could one lease lock have given the answers
// in a history? It decides exactly, in O(n log n):
//
//	acquire ok    free → held        release ok    held → free
//	extend ok     held → held        release or extend fail    not held by the caller
//	unknown       took effect at some time after its call, or never
//	lapse         held → free at any time from the deadline, or never
//
// Each session's answers force a span in which it held (session.go). The
// spans that are forced are disjoint in any order that explains the answers, so
// an overlap is a violation. Conversely, where they are disjoint, holding exactly
// the forced spans explains every answer: the rest asks only for a later begin
// or an earlier end. certificate.go verifies just that.
//
// Each answer that could have contradicted another is an occasion: an extension's and a
// release's, and an acquire's that was under way while another session must have held.
//
// A client's own operations are in their order whatever their stamps say, also where it
// has several sessions of the lock (handles.go): a brief hold comes after what its
// client must have held before. Equal stamps of different clients are concurrent.
//
// Deliberately missing: what clients believed, why a lock failed, and porcupine, which
// answers the same question by another algorithm.
package lease

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Finding is what was found about the locks of a record.
type Finding struct {
	r     *facts.Facts
	locks []leaseKey
}

// leaseKey is what was found about one key.
type leaseKey struct {
	firm       []spans.Window // when sessions must have held, in the order of their begin
	brief      []hold         // where they must have held for an instant
	holds      int            // sessions that must have held
	occasions  int            // answers that could have contradicted another
	unanswered int            // extensions and releases without a definite answer
	incidents  int            // connected components of firm holds that overlap, and each other conflict
	worst      *conflict
	list       bool        // whether all are kept
	all        []*conflict // of overlaps that hang together the longest
	doubt      string      // what the certificate leaves unexplained, if nothing is in conflict

	operations func(*facts.Session) []leaseOp
	evidence   evidence
	handles    *handles // nil: each client used its last handle only
}

// Judge judges each lock of a record. Each uses the memory of the belief windows.
func Judge(r *facts.Facts, beliefs *spans.Beliefs) Finding {
	f := Finding{r: r}
	in := &reader{ε: int64(r.Params.StampError), gone: mortal(r), any: r.Params.Untold}
	for _, l := range r.Locks {
		k := judge(r, in, l, beliefs.Memory())
		k.occasions += spans.Meetings(r, l, k.firm)
		if k.worst == nil {
			k.doubt = k.uncertified()
		}
		k.firm = nil // the next lock's
		f.locks = append(f.locks, *k)
	}
	return f
}

// Incidents is each conflict that a Finding counts.
func Incidents(r *facts.Facts, beliefs *spans.Beliefs) (all []verdict.Incident) {
	in := &reader{ε: int64(r.Params.StampError), list: true, gone: mortal(r), any: r.Params.Untold}
	for _, l := range r.Locks {
		k := judge(r, in, l, beliefs.Memory())
		for _, c := range k.all {
			all = append(all, verdict.Incident{From: c.From, Tell: func() verdict.Result {
				if c != k.worst {
					k.show(c)
				}
				return c.result(r.End)
			}})
		}
	}
	return all
}

// Result is the judgement of the property.
func (f Finding) Result() verdict.Result {
	holds, answers, unanswered, incidents := 0, 0, 0, 0
	var worst *conflict
	for _, k := range f.locks {
		holds += k.holds
		answers += k.occasions
		unanswered += k.unanswered
		incidents += k.incidents
		if worse(k.worst, worst) {
			worst = k.worst
		}
	}
	if worst == nil && answers == 0 && unanswered > 0 && f.r.Params.Untold {
		return verdict.Result{Outcome: verdict.NotExercised, NotApplicable: true,
			Because: "not applicable to this lock: it doesn't tell its holder how long the lock lasts, and no release or extension had a definite answer"}
	}
	if worst == nil {
		return verdict.Result{
			Outcome: verdict.Holds, Occasions: answers,
			Because: fmt.Sprintf("one lease lock could have given these answers, in %s", verdict.Plural(holds, "hold")),
		}
	}
	res := worst.result(f.r.End)
	res.Occasions, res.Incidents = answers, incidents
	return res
}

// Against is what speaks against a verdict that the property holds, or "": a conflict, or
// what the certificate leaves unexplained.
func (f Finding) Against() string {
	for _, k := range f.locks {
		if k.worst != nil {
			return k.worst.because(f.r.End)
		}
		if k.doubt != "" {
			return k.doubt
		}
	}
	return ""
}

// judge judges one lock. Its firm holds are good as long as the memory for them is.
func judge(r *facts.Facts, in *reader, l *facts.Lock, memory []spans.Window) *leaseKey {
	k := &leaseKey{operations: in.operations, firm: memory, list: in.list}
	alone := map[*facts.Session]*conflict{}
	if r.Interleaved {
		k.handles = handlesOf(l.Sessions(), in.operations)
		k.operations = func(s *facts.Session) []leaseOp { return k.handles.mark(s, in.operations(s)) }
		alone = k.handles.mixed
	}
	k.judge(l.Sessions(), alone)
	if k.worst != nil {
		k.show(k.worst)
	}
	return k
}

func (k *leaseKey) show(c *conflict) {
	if len(c.sessions) == 2 {
		k.prove(c)
	}
	if k.handles != nil {
		k.handles.explain(c, k.operations)
	}
}

// judge judges one key by its sessions' operations. alone is sessions that contradict
// themselves, or others of their client.
func (k *leaseKey) judge(ss iter.Seq[*facts.Session], alone map[*facts.Session]*conflict) {
	for s := range ss {
		k.evidence.read(k.operations(s))
		h, held, against := k.evidence.holdOf(s)
		switch {
		case held && h.firm:
			k.firm = append(k.firm, h.Window)
		case held:
			k.brief = append(k.brief, h)
		}
		if held || against != nil {
			k.holds++
			k.occasions += k.evidence.answers
			k.unanswered += k.evidence.unanswered
		}
		if against != nil {
			alone[s] = against
		}
	}
	k.follow(ss)
	spans.SortWindows(k.firm)
	o := spans.Overlaps{List: k.list}
	o.Sweep(k.firm, facts.Never)
	k.incidents = o.Incidents
	if o.Incidents > 0 {
		k.worst = overlap(o.Overlap)
		for _, x := range o.Each {
			k.all = append(k.all, overlap(x))
		}
		for _, s := range overlapping(k.firm) { // who lost early because another got in is no harm more
			delete(alone, s)
		}
	} else {
		k.bury(alone)
	}
	k.incidents += len(alone)
	if len(alone) > 0 {
		for s := range ss {
			c := alone[s]
			if c != nil && worse(c, k.worst) {
				k.worst = c
			}
			if c != nil && k.list {
				k.all = append(k.all, c)
			}
		}
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
func overlapping(ws []spans.Window) []*facts.Session {
	var ss []*facts.Session
	for i, reached := 0, ws[0].From; i < len(ws); i++ {
		if ws[i].From < reached || i+1 < len(ws) && ws[i+1].From < ws[i].To {
			ss = append(ss, ws[i].Session)
		}
		reached = max(reached, ws[i].To)
	}
	return ss
}

// follow puts each brief hold behind what its client must have held before it, by the
// order of its operations. Where that leaves it no instant it is buried there. Another brief
// hold before it leaves it room: the earlier one's instant, for that can't be later than
// the last at which this one may be.
func (k *leaseKey) follow(ss iter.Seq[*facts.Session]) {
	if len(k.brief) == 0 {
		return
	}
	firm := k.firmOf(ss)
	for i := range k.brief {
		h := &k.brief[i]
		of := firm[h.Session.Client()]
		n, _ := slices.BinarySearchFunc(of, *h, byFirst)
		if n == 0 || of[n-1].To <= h.From {
			continue
		}
		h.From = of[n-1].To
	}
}

// firmOf is the firm holds of each client that has a brief one, in its own order.
func (k *leaseKey) firmOf(ss iter.Seq[*facts.Session]) map[string][]hold {
	firm := map[string][]hold{}
	for _, h := range k.brief {
		firm[h.Session.Client()] = nil
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
		slices.SortFunc(of, byFirst)
	}
	return firm
}

// bury finds brief holds that must lie strictly inside a firm one. The firm ones
// are disjoint: only the last that begins before it can contain it.
func (k *leaseKey) bury(alone map[*facts.Session]*conflict) {
	for _, h := range k.brief {
		if w := around(k.firm, h.Window); w != nil && alone[h.Session] == nil {
			alone[h.Session] = &conflict{kind: verdict.Buried, sessions: []*facts.Session{w.Session, h.Session}, From: min(h.From, h.To), To: h.To}
		}
	}
}

// around is the firm window that a brief hold can't get out of, or nil.
func around(firm []spans.Window, h spans.Window) *spans.Window {
	i, _ := slices.BinarySearchFunc(firm, h.From, func(w spans.Window, t int64) int { return cmp.Compare(w.From, t) })
	if i > 0 && h.To < firm[i-1].To {
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
	case (a.kind == verdict.Overlap) != (than.kind == verdict.Overlap):
		return a.kind == verdict.Overlap
	case a.kind == verdict.Overlap && a.To-a.From != than.To-than.From:
		return a.To-a.From > than.To-than.From
	}
	return a.From < than.From
}

func (c *conflict) because(end int64) string {
	first := c.sessions[0]
	lock := verdict.LockName(first.Key())
	from, to := facts.Seconds(c.From), facts.Seconds(recorded(c.From, c.To, end))
	switch c.kind {
	case verdict.Overlap:
		return fmt.Sprintf("%s must both have held %s %s", verdict.Pair(first, c.sessions[1]), lock, facts.FromTo(c.From, recorded(c.From, c.To, end)))
	case verdict.Buried:
		return fmt.Sprintf("%s held %s at some instant from %s to %s, when %s must have held it throughout",
			c.sessions[1].Name(), lock, from, to, first.Name())
	case verdict.Phantom:
		return fmt.Sprintf("%s held %s between %s and %s, though its acquire had failed", first.Name(), lock, from, to)
	case verdict.DoubleRelease:
		return fmt.Sprintf("%s gave %s back twice, between %s and %s", first.Name(), lock, from, to)
	case verdict.HeldAfter:
		return fmt.Sprintf("%s still held %s at %s, and had given it back before, by %s", first.Name(), lock, to, from)
	}
	return fmt.Sprintf("%s was told between %s and %s that it did not hold %s, and nothing could have ended its lease by then", first.Name(), from, to, lock)
}

func (c *conflict) result(end int64) verdict.Result {
	return verdict.Result{Outcome: verdict.Violated, Cause: c.kind, Because: c.because(end), Witness: c.witness(end)}
}

func (c *conflict) witness(end int64) *verdict.Witness {
	var events []*history.Event
	for _, s := range c.sessions { // a failed acquire is no operation, and proves a phantom
		events = append(events, s.Acquire.Call, s.Acquire.Return)
	}
	for _, o := range c.ops {
		events = append(events, o.Call, o.Return)
	}
	w := &verdict.Witness{Events: verdict.Numbered(events), Key: c.sessions[0].Key(), From: c.From, To: recorded(c.From, c.To, end), Of: c.sessions}
	for _, s := range c.sessions {
		w.Sessions = append(w.Sessions, s.Name())
	}
	return w
}

// recorded is the end of a span, for the eye: a lock without a deadline is held for
// ever, and the record ends.
func recorded(from, to, end int64) int64 { return min(to, max(from, end)) }
