// Package lease judges lease-linearizability: could one lease lock have given the answers
// in a history? It decides exactly, in O(n log n):
//
//	acquire ok    free → held        release ok    held → free
//	extend ok     held → held        release or extend fail    not held by the caller
//	unknown       took effect at some time after its call, or never
//	lapse         held → free at any time from the deadline, or never
//
// Each session's answers force a span in which it held. The
// spans that are forced are disjoint in any order that explains the answers, so
// an overlap is a violation. Conversely, where they are disjoint, holding exactly
// the forced spans explains every answer: the rest asks only for a later begin
// or an earlier end. certificate.go verifies just that.
//
// Each answer that could have contradicted another is an occasion: an extension's and a
// release's, and an acquire's that was under way while another session must have held.
//
// A client's own operations are in their order whatever their stamps say, also where it
// has several sessions of the lock: a brief hold comes after what its
// client must have held before. Equal stamps of different clients are concurrent.
//
// Deliberately missing: what clients believed, why a lock failed, and porcupine, which
// answers the same question by another algorithm.
package lease

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// leaseKey is what was found about one key.
type leaseKey struct {
	firm       []spans.Window // when sessions must have held, in the order of their begin
	brief      []hold         // where they must have held for an instant
	holds      int            // sessions that must have held
	occasions  int            // answers that could have contradicted another
	unanswered int            // extensions and releases without a definite answer
	all        []*conflict    // of firm holds that hang together the longest overlap, and each other conflict
	worst      *conflict      // the one that is shown

	operations func(*facts.Session) []leaseOp
	evidence   evidence
	handles    *handles // nil: each client used its last handle only
}

// Judge judges each lock of a record. Each uses the memory of the belief windows. against is what
// speaks against a verdict that the property holds, or "": a conflict, or what the certificate leaves
// unexplained.
func Judge(r *facts.Facts, beliefs *spans.Beliefs) (f verdict.Finding, against string) {
	in := &reader{ε: int64(r.Params.StampError), gone: mortal(r), any: r.Params.Untold}
	holds, unanswered := 0, 0
	var worst *conflict
	for _, l := range r.Locks {
		k := judge(r, in, l, beliefs.Memory())
		f.Occasions += k.occasions + spans.Meetings(r, l, k.firm)
		holds, unanswered = holds+k.holds, unanswered+k.unanswered
		if k.worst == nil {
			against = cmp.Or(against, k.uncertified())
			continue
		}
		against = cmp.Or(against, k.worst.because(r.End))
		if worse(k.worst, worst) {
			worst = k.worst
		}
		f.Incidents = slices.Grow(f.Incidents, len(k.all))
		for _, c := range k.all {
			f.Incidents = append(f.Incidents, verdict.Incident{From: c.From, Tell: func() verdict.Result {
				if c != k.worst {
					k.show(c)
				}
				return c.result(r.End)
			}})
		}
		k.firm = nil // the next lock's
	}
	if worst != nil {
		f.Worst = func() verdict.Result { return worst.result(r.End) }
	}
	f.Because = fmt.Sprintf("one lease lock could have given these answers, in %s", verdict.Plural(holds, "hold"))
	if f.Occasions == 0 && unanswered > 0 && r.Params.Untold {
		f.NotApplicable = true
		f.Because = "not applicable to this lock: it doesn't tell its holder how long the lock lasts, and no release or extension had a definite answer"
	}
	return f, against
}

// judge judges one lock. Its firm holds are good as long as the memory for them is.
func judge(r *facts.Facts, in *reader, l *facts.Lock, memory []spans.Window) *leaseKey {
	k := &leaseKey{operations: in.operations, firm: memory}
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
	var o spans.Overlaps
	o.Sweep(k.firm, facts.Never)
	if len(o.Each) > 0 {
		k.all = make([]*conflict, 0, len(o.Each)+len(alone))
		for _, x := range o.Each {
			k.all = append(k.all, overlap(x))
		}
		for _, s := range overlapping(k.firm) { // who lost early because another got in is no harm more
			delete(alone, s)
		}
	} else {
		k.bury(alone)
	}
	if len(alone) > 0 {
		for s := range ss {
			if c := alone[s]; c != nil {
				k.all = append(k.all, c)
			}
		}
	}
	for _, c := range k.all {
		if worse(c, k.worst) {
			k.worst = c
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
	return fmt.Sprintf("%s was told between %s and %s that it did not hold %s, before its lease was over", first.Name(), from, to, lock)
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

// leaseOp is one operation on the lease object, as the fast procedure takes it.
type leaseOp struct {
	facts.Operation
	op      string
	outcome history.Type
	call    int64 // it took effect between call and ret, if it did
	ret     int64 // never, if the outcome is unknown
	lapse   int64 // acquire and extend: the earliest true time at which the lease may lapse
	late    bool  // a release of unknown outcome that can't be what ended the hold; see handles
}

// number is the place of an operation among those of its client.
func (o *leaseOp) number() int64 { return o.Call.N }

// reader reads sessions, and widens what it reads by the error of the stamps.
type reader struct {
	ε    int64
	ops  []leaseOp        // memory that sessions share
	gone map[string]int64 // when clients were
	any  bool             // a lease may lapse at any time: its lock tells nobody
}

// operations is a session's operations, in the order in which they were called.
// They are good until the next call.
//
// The error of the stamps widens every interval and brings every lapse forward: it
// can hide a violation, never invent one. What a client did after something else it
// did after it all the same: their order is a constraint of its own, by number, and
// moves no stamp.
func (in *reader) operations(s *facts.Session) []leaseOp {
	ops := leaseOps(s, in.ops[:0])
	in.ops = ops
	in.survived(s, ops)
	ε := in.ε
	if ε == 0 {
		return ops
	}
	for i := range ops {
		o := &ops[i]
		o.call -= ε
		if o.ret != facts.Never {
			o.ret += ε
		}
		if o.lapse != facts.Never && o.lapse != math.MinInt64 {
			o.lapse -= ε
		}
	}
	return ops
}

// survived lets a lease without a deadline lapse with its client, if the lock has a time to
// live: nobody says how long it goes on. Where the lock tells nobody, it may at any time.
func (in *reader) survived(s *facts.Session, ops []leaseOp) {
	if len(in.gone) == 0 && !in.any {
		return
	}
	for i := range ops {
		o := &ops[i]
		if in.any && o.outcome == history.OK && o.op != history.OpRelease {
			o.lapse = facts.Nothing
		}
		if o.lapse != facts.Never || o.outcome != history.OK || o.op == history.OpRelease {
			continue
		}
		if t, gone := in.gone[s.Client()]; gone {
			o.lapse = t
		}
	}
}

// mortal is when clients were gone, of a lock that ends by itself.
func mortal(r *facts.Facts) map[string]int64 {
	if r.Params.TTL == 0 {
		return nil
	}
	return r.Gone
}

// leaseOps is a session's operations with their stamps as recorded. Two kinds
// are left out, and neither judge sees them. A failed acquire says nothing, for
// Redlock may fail for no reason. Nor does an extension of unknown outcome: a
// lease lapses when its client stops believing, and an answer that the client
// never heard moves no deadline; nor is it evidence of holding, for it may never
// have taken effect.
func leaseOps(s *facts.Session, ops []leaseOp) []leaseOp {
	add := func(o facts.Operation, op string, lapse int64) {
		ops = append(ops, leaseOp{Operation: o, op: op, outcome: o.Outcome(), call: o.Call.T, ret: o.Returned(), lapse: lapse})
	}
	lapse := s.Until // facts.Nothing: nobody knows what an acquire without an answer claims
	switch {
	case s.Granted():
		ops = append(ops, leaseOp{Operation: s.Acquire, op: history.OpAcquire, outcome: history.OK, call: s.Called, ret: s.Ended, lapse: lapse})
	case s.Acquire.Outcome() == history.Info:
		add(s.Acquire, history.OpAcquire, lapse)
	}
	for x := range s.Actions() {
		switch {
		case x.Call.Op == history.OpRelease:
			add(x, history.OpRelease, facts.Never)
		case x.Call.Op != history.OpExtend:
		case x.Outcome() == history.OK:
			lapse = facts.Renewed(x.Return, lapse)
			add(x, history.OpExtend, lapse)
		case x.Outcome() == history.Fail:
			add(x, history.OpExtend, facts.Never)
		}
	}
	return ops
}

// handles is what the order of one client's operations says of its sessions of one
// lock, where it uses a handle after it has begun another session. Of two sessions one
// was over when the other began: if it is shown to hold by one, then by the other and
// again by the first, it must have held both. And a release of unknown outcome that it
// called when it was shown to hold by another handle can't have ended the hold before.
type handles struct {
	passed map[*facts.Session]sign // what showed that the session was over
	mixed  map[*facts.Session]*conflict
}

// sign is an operation that shows that its session held.
type sign struct {
	op leaseOp
	by *facts.Session
}

// handlesOf is made of the sessions of one lock.
func handlesOf(ss iter.Seq[*facts.Session], operations func(*facts.Session) []leaseOp) *handles {
	h := &handles{passed: map[*facts.Session]sign{}, mixed: map[*facts.Session]*conflict{}}
	clients := map[string][]sign{}
	for s := range ss {
		if s.Acquire.Outcome() == history.Fail {
			continue // it is a conflict by itself if it is shown to hold
		}
		for _, o := range operations(s) {
			if o.outcome == history.OK {
				clients[s.Client()] = append(clients[s.Client()], sign{o, s})
				if o.op == history.OpRelease {
					break // what shows that it held afterwards is a conflict by itself, too
				}
			}
		}
	}
	for _, all := range clients {
		slices.SortFunc(all, func(a, b sign) int { return cmp.Compare(a.op.number(), b.op.number()) })
		last := map[*facts.Session]leaseOp{}
		for i, x := range all {
			if before, ok := last[x.by]; ok && all[i-1].by != x.by && h.mixed[x.by] == nil {
				between := all[i-1]
				h.mixed[x.by] = &conflict{kind: verdict.Overlap, sessions: []*facts.Session{x.by, between.by},
					ops: []leaseOp{before, between.op, x.op}, From: between.op.call, To: between.op.ret}
			}
			last[x.by] = x.op
			if i > 0 && all[i-1].by != x.by && h.passed[all[i-1].by].by == nil {
				h.passed[all[i-1].by] = x
			}
		}
	}
	return h
}

// mark marks the releases that can't have ended a session's hold.
func (h *handles) mark(s *facts.Session, ops []leaseOp) []leaseOp {
	x := h.passed[s]
	for i := range ops {
		o := &ops[i]
		o.late = x.by != nil && o.op == history.OpRelease && o.outcome == history.Info && o.number() > x.op.number()
	}
	return ops
}

// explain adds to a conflict the session by which a release of its sessions came too late.
func (h *handles) explain(c *conflict, operations func(*facts.Session) []leaseOp) {
	for _, s := range slices.Clone(c.sessions) {
		if x := h.passed[s]; x.by != nil && !slices.Contains(c.sessions, x.by) && slices.ContainsFunc(operations(s), func(o leaseOp) bool { return o.late }) {
			c.sessions, c.ops = append(c.sessions, x.by), append(c.ops, x.op)
		}
	}
}

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
// the hold besides, up to when its client was told, or had called the release that was told.
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
		end := no.ret
		if no.op == history.OpRelease { // it had given the lock up
			end = no.call
		}
		h.To, h.firm = end, from < end
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
