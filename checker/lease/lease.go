// Package lease judges lease-linearizability: could a single lease lock have given the answers in a
// history? It decides exactly, in O(n log n):
//
//	acquire ok    free → held        release ok    held → free
//	extend ok     held → held        release or extend fail    not held by the caller
//	unknown       took effect at some time after its call, or never
//	lapse         held → free at any time from the deadline, or never
//
// Each session's answers imply a span during which the session must have held the lock. In any
// order that explains the answers, these spans are disjoint, so an overlap is a violation.
// Conversely, if they are disjoint, holding the lock in exactly these spans explains every answer:
// all other answers only require a later start or an earlier end. certificate.go verifies exactly
// this.
//
// Each answer that could have contradicted another one is an occasion: every answer to an extension
// or a release, and every acquire that was in progress while another session must have held the
// lock.
//
// A client's operations took effect in the order in which it called them, whatever their
// timestamps, even if the client has several sessions of the lock: if it held the lock briefly,
// that was after everything it must have held before. Operations of different clients with equal
// timestamps are concurrent.
//
// Other packages determine what clients believed and why a lock failed. Package second answers the
// same question with porcupine, by another algorithm.
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

// leaseKey holds the results for one key.
type leaseKey struct {
	firmHolds     []spans.Window // spans during which sessions must have held the lock, sorted
	briefHolds    []hold         // spans that contain an instant at which a session must have held it
	numHolds      int            // number of sessions that must have held the lock
	numOccasions  int            // number of answers that could have contradicted another
	numUnanswered int            // number of extensions and releases without a definite answer
	conflicts     []*conflict    // the longest overlap in each group of connected firm holds, and all other conflicts
	worstConflict *conflict      // the conflict to report

	operations func(*facts.Session) []leaseOp
	evidence   evidence
	handles    *handles // nil if each client used no handle but its latest
}

// Judge judges each lock of a record. It reuses the memory of the belief windows. objection is a
// reason not to accept that the property holds: a conflict, or whatever the certificate does not
// explain. It is "" if there is none.
func Judge(r *facts.Facts, beliefs *spans.Beliefs) (f verdict.Finding, objection string) {
	opReader := &reader{ε: int64(r.Params.StampError), goneTimes: goneClients(r), lapsesAnytime: r.Params.NoLossNotice}
	numHolds, numUnanswered := 0, 0
	var worstConflict *conflict
	for _, l := range r.Locks {
		k := judge(r, opReader, l, beliefs.EmptyWindows())
		f.Occasions += k.numOccasions + spans.Meetings(r, l, k.firmHolds)
		numHolds, numUnanswered = numHolds+k.numHolds, numUnanswered+k.numUnanswered
		if k.worstConflict == nil {
			objection = cmp.Or(objection, k.verifyCertificate())
			continue
		}
		objection = cmp.Or(objection, k.worstConflict.reason(r.End))
		if isWorse(k.worstConflict, worstConflict) {
			worstConflict = k.worstConflict
		}
		f.Incidents = slices.Grow(f.Incidents, len(k.conflicts))
		for _, c := range k.conflicts {
			f.Incidents = append(f.Incidents, verdict.Incident{From: c.From, Describe: func() verdict.Result {
				if c != k.worstConflict {
					k.complete(c)
				}
				return c.result(r.End)
			}})
		}
		k.firmHolds = nil // the next lock reuses its memory
	}
	if worstConflict != nil {
		f.DescribeWorst = func() verdict.Result { return worstConflict.result(r.End) }
	}
	f.Because = fmt.Sprintf("a single lease lock could have given these answers (%s)", verdict.Plural(numHolds, "hold"))
	if f.Occasions == 0 && numUnanswered > 0 && r.Params.NoLossNotice {
		f.NotApplicable = true
		f.Because = "not applicable to this lock: its holder does not know how long the lock lasts, and no release or extension had a definite answer"
	}
	return f, objection
}

// judge judges one lock. It stores the firm holds in memory, where they are valid until it is
// reused.
func judge(r *facts.Facts, opReader *reader, l *facts.Lock, memory []spans.Window) *leaseKey {
	k := &leaseKey{operations: opReader.operations, firmHolds: memory}
	sessionConflicts := map[*facts.Session]*conflict{}
	if r.HasInterleavedSessions {
		k.handles = readHandles(l.Sessions(), opReader.operations)
		k.operations = func(s *facts.Session) []leaseOp { return k.handles.markLate(s, opReader.operations(s)) }
		sessionConflicts = k.handles.conflicts
	}
	k.judge(l.Sessions(), sessionConflicts)
	if k.worstConflict != nil {
		k.complete(k.worstConflict)
	}
	return k
}

// complete adds to a conflict the operations that prove it.
func (k *leaseKey) complete(c *conflict) {
	if len(c.sessions) == 2 {
		k.addProof(c)
	}
	if k.handles != nil {
		k.handles.explain(c, k.operations)
	}
}

// judge judges one key from its sessions' operations. sessionConflicts contains the sessions that
// contradict themselves or other sessions of the same client.
func (k *leaseKey) judge(ss iter.Seq[*facts.Session], sessionConflicts map[*facts.Session]*conflict) {
	for s := range ss {
		k.evidence.read(k.operations(s))
		h, held, selfConflict := k.evidence.holdOf(s)
		switch {
		case held && h.firm:
			k.firmHolds = append(k.firmHolds, h.Window)
		case held:
			k.briefHolds = append(k.briefHolds, h)
		}
		if held || selfConflict != nil {
			k.numHolds++
			k.numOccasions += k.evidence.numAnswers
			k.numUnanswered += k.evidence.numUnanswered
		}
		if selfConflict != nil {
			sessionConflicts[s] = selfConflict
		}
	}
	k.orderBriefHolds(ss)
	spans.SortWindows(k.firmHolds)
	var o spans.Overlaps
	o.Sweep(k.firmHolds, facts.Never)
	if len(o.Incidents) > 0 {
		k.conflicts = make([]*conflict, 0, len(o.Incidents)+len(sessionConflicts))
		for _, x := range o.Incidents {
			k.conflicts = append(k.conflicts, newOverlap(x))
		}
		for _, s := range overlappingSessions(k.firmHolds) { // a session that lost the lock to another is not a second violation
			delete(sessionConflicts, s)
		}
	} else {
		k.findBuriedHolds(sessionConflicts)
	}
	if len(sessionConflicts) > 0 {
		for s := range ss {
			if c := sessionConflicts[s]; c != nil {
				k.conflicts = append(k.conflicts, c)
			}
		}
	}
	for _, c := range k.conflicts {
		if isWorse(c, k.worstConflict) {
			k.worstConflict = c
		}
	}
}

// addProof adds the operations that determine the holds of two conflicting sessions.
func (k *leaseKey) addProof(c *conflict) {
	for _, s := range c.sessions {
		k.evidence.read(k.operations(s))
		c.ops = append(c.ops, k.evidence.bounds()...)
	}
}

// overlappingSessions returns the sessions whose windows overlap another window. The windows must
// be sorted by start.
func overlappingSessions(ws []spans.Window) []*facts.Session {
	var ss []*facts.Session
	for i, latestEnd := 0, ws[0].From; i < len(ws); i++ {
		if ws[i].From < latestEnd || i+1 < len(ws) && ws[i+1].From < ws[i].To {
			ss = append(ss, ws[i].Session)
		}
		latestEnd = max(latestEnd, ws[i].To)
	}
	return ss
}

// orderBriefHolds makes each brief hold start after its client's preceding firm hold, in the order of
// the client's operations. If that leaves no instant, the brief hold is buried in the firm hold.
// Preceding brief holds always leave an instant, because theirs can't be later than the last
// possible instant of this one.
func (k *leaseKey) orderBriefHolds(ss iter.Seq[*facts.Session]) {
	if len(k.briefHolds) == 0 {
		return
	}
	holdsByClient := k.firmHoldsByClient(ss)
	for i := range k.briefHolds {
		h := &k.briefHolds[i]
		clientHolds := holdsByClient[h.Session.Client()]
		n, _ := slices.BinarySearchFunc(clientHolds, *h, compareFirst)
		if n == 0 || clientHolds[n-1].To <= h.From {
			continue
		}
		h.From = clientHolds[n-1].To
	}
}

// firmHoldsByClient returns the firm holds of each client that has a brief hold, in the order of
// the client's calls.
func (k *leaseKey) firmHoldsByClient(ss iter.Seq[*facts.Session]) map[string][]hold {
	holdsByClient := map[string][]hold{}
	for _, h := range k.briefHolds {
		holdsByClient[h.Session.Client()] = nil
	}
	for s := range ss {
		clientHolds, ok := holdsByClient[s.Client()]
		if !ok {
			continue
		}
		k.evidence.read(k.operations(s))
		if h, held, _ := k.evidence.holdOf(s); held && h.firm {
			holdsByClient[s.Client()] = append(clientHolds, h)
		}
	}
	for _, clientHolds := range holdsByClient {
		slices.SortFunc(clientHolds, compareFirst)
	}
	return holdsByClient
}

// findBuriedHolds finds brief holds that must lie strictly inside a firm one. Firm holds are disjoint,
// so only the last firm hold that begins before a brief hold can contain it.
func (k *leaseKey) findBuriedHolds(sessionConflicts map[*facts.Session]*conflict) {
	for _, h := range k.briefHolds {
		if w := enclosingWindow(k.firmHolds, h.Window); w != nil && sessionConflicts[h.Session] == nil {
			sessionConflicts[h.Session] = &conflict{kind: verdict.Buried, sessions: []*facts.Session{w.Session, h.Session}, From: min(h.From, h.To), To: h.To}
		}
	}
}

// enclosingWindow returns the firm window that contains every instant of a brief hold, or nil.
func enclosingWindow(firmHolds []spans.Window, h spans.Window) *spans.Window {
	i, _ := slices.BinarySearchFunc(firmHolds, h.From, func(w spans.Window, t int64) int { return cmp.Compare(w.From, t) })
	if i > 0 && h.To < firmHolds[i-1].To {
		return &firmHolds[i-1]
	}
	return nil
}

// isWorse reports whether to report conflict a rather than conflict b. The longest overlap is
// reported, and the earliest if several are equally long. Without an overlap, the first conflict is
// reported.
func isWorse(a, b *conflict) bool {
	switch {
	case a == nil || b == nil:
		return a != nil
	case (a.kind == verdict.Overlap) != (b.kind == verdict.Overlap):
		return a.kind == verdict.Overlap
	case a.kind == verdict.Overlap && a.To-a.From != b.To-b.From:
		return a.To-a.From > b.To-b.From
	}
	return a.From < b.From
}

func (c *conflict) reason(end int64) string {
	first := c.sessions[0]
	lock := verdict.LockName(first.Key())
	from, to := facts.Seconds(c.From), facts.Seconds(displayEnd(c.From, c.To, end))
	switch c.kind {
	case verdict.Overlap:
		return fmt.Sprintf("%s must both have held %s %s", verdict.PairNames(first, c.sessions[1]), lock, facts.FromTo(c.From, displayEnd(c.From, c.To, end)))
	case verdict.Buried:
		return fmt.Sprintf("%s held %s at some instant from %s to %s, when %s must have held it throughout",
			c.sessions[1].Name(), lock, from, to, first.Name())
	case verdict.Phantom:
		return fmt.Sprintf("%s held %s between %s and %s, though its acquire had failed", first.Name(), lock, from, to)
	case verdict.DoubleRelease:
		return fmt.Sprintf("%s released %s twice, between %s and %s", first.Name(), lock, from, to)
	case verdict.HeldAfter:
		return fmt.Sprintf("%s still held %s at %s, after releasing it by %s", first.Name(), lock, to, from)
	}
	return fmt.Sprintf("%s learned between %s and %s that it did not hold %s, before its lease was over", first.Name(), from, to, lock)
}

func (c *conflict) result(end int64) verdict.Result {
	return verdict.Result{Outcome: verdict.Violated, Cause: c.kind, Because: c.reason(end), Witness: c.witness(end)}
}

func (c *conflict) witness(end int64) *verdict.Witness {
	var events []*history.Event
	for _, s := range c.sessions { // leaseOps omits failed acquires, but they prove a phantom
		events = append(events, s.Acquire.Call, s.Acquire.Return)
	}
	for _, o := range c.ops {
		events = append(events, o.Call, o.Return)
	}
	w := &verdict.Witness{Events: verdict.EventNumbers(events), Key: c.sessions[0].Key(), From: c.From, To: displayEnd(c.From, c.To, end), SessionFacts: c.sessions}
	for _, s := range c.sessions {
		w.Sessions = append(w.Sessions, s.Name())
	}
	return w
}

// displayEnd limits a span to the record's end, because a lock without a deadline may be held
// forever.
func displayEnd(from, to, end int64) int64 { return min(to, max(from, end)) }

// leaseOp is one operation on the lease object.
type leaseOp struct {
	facts.Operation
	op      string
	outcome history.Type
	call    int64 // it took effect between call and ret, or not at all
	ret     int64 // facts.Never if the outcome is unknown
	lapse   int64 // acquire and extend: the earliest true time at which the lease may lapse
	late    bool  // it is a release of unknown outcome that cannot have ended the hold; see handles
}

// order returns an operation's position among its client's operations.
func (o *leaseOp) order() int64 { return o.Call.N }

// reader reads the operations of sessions and widens their spans by the timestamp error.
type reader struct {
	ε             int64
	ops           []leaseOp        // reused for each session
	goneTimes     map[string]int64 // by client: when it disappeared
	lapsesAnytime bool             // leases may lapse at any time, because the lock never notifies its holder
}

// operations returns a session's operations in the order of their calls. The slice is valid until
// the next call.
//
// The timestamp error widens every span and makes every lapse earlier. That can hide a violation
// but never invent one. A client's operations are ordered by their numbers, whatever their
// timestamps.
func (in *reader) operations(s *facts.Session) []leaseOp {
	ops := leaseOps(s, in.ops[:0])
	in.ops = ops
	in.lapseWithClient(s, ops)
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

// lapseWithClient determines when leases without a deadline lapse. If the lock has a TTL, such a
// lease lapses when its client disappears, because nobody knows how much longer it lasts. If the
// lock never notifies its holder, a lease may lapse at any time.
func (in *reader) lapseWithClient(s *facts.Session, ops []leaseOp) {
	if len(in.goneTimes) == 0 && !in.lapsesAnytime {
		return
	}
	for i := range ops {
		o := &ops[i]
		if in.lapsesAnytime && o.outcome == history.OK && o.op != history.OpRelease {
			o.lapse = facts.NotGranted
		}
		if o.lapse != facts.Never || o.outcome != history.OK || o.op == history.OpRelease {
			continue
		}
		if t, gone := in.goneTimes[s.Client()]; gone {
			o.lapse = t
		}
	}
}

// goneClients returns when each client disappeared, or nil if the lock has no TTL.
func goneClients(r *facts.Facts) map[string]int64 {
	if r.Params.TTL == 0 {
		return nil
	}
	return r.GoneAt
}

// leaseOps returns a session's operations with their recorded timestamps. It omits two kinds of
// operations, which the second judge ignores, too. A failed acquire proves nothing, because Redlock
// may fail without a reason. Nor does an extension of unknown outcome prove anything: a lease
// lapses when its client stops believing that it holds the lock, so an answer that the client never
// received moves no deadline. The extension does not show that the session held the lock either,
// because it may never have taken effect.
func leaseOps(s *facts.Session, ops []leaseOp) []leaseOp {
	add := func(o facts.Operation, op string, lapse int64) {
		ops = append(ops, leaseOp{Operation: o, op: op, outcome: o.Outcome(), call: o.Call.T, ret: o.OutcomeAt(), lapse: lapse})
	}
	lapse := s.Deadline // facts.NotGranted if the acquire was not answered, because its claim is unknown
	switch {
	case s.Granted():
		ops = append(ops, leaseOp{Operation: s.Acquire, op: history.OpAcquire, outcome: history.OK, call: s.CalledAt, ret: s.EndedAt, lapse: lapse})
	case s.Acquire.Outcome() == history.Info:
		add(s.Acquire, history.OpAcquire, lapse)
	}
	for x := range s.Actions() {
		switch {
		case x.Call.Op == history.OpRelease:
			add(x, history.OpRelease, facts.Never)
		case x.Call.Op != history.OpExtend:
		case x.Outcome() == history.OK:
			lapse = facts.ExtendedDeadline(x.Return, lapse)
			add(x, history.OpExtend, lapse)
		case x.Outcome() == history.Fail:
			add(x, history.OpExtend, facts.Never)
		}
	}
	return ops
}

// handles orders a client's operations across its sessions of one lock. It is needed if the client
// uses a handle after beginning another session. Of any two sessions, one was over when the other
// began. So if operations show that the client held the lock through one handle, then through
// another and then through the first again, the two holds must have overlapped. A release of
// unknown outcome cannot have ended a hold if the client called it after another handle was shown
// to hold the lock.
type handles struct {
	endProofs map[*facts.Session]proof // the first operation that shows that the session was over
	conflicts map[*facts.Session]*conflict
}

// proof is an operation that shows that its session held the lock.
type proof struct {
	op      leaseOp
	session *facts.Session
}

func readHandles(ss iter.Seq[*facts.Session], operations func(*facts.Session) []leaseOp) *handles {
	h := &handles{endProofs: map[*facts.Session]proof{}, conflicts: map[*facts.Session]*conflict{}}
	proofsByClient := map[string][]proof{}
	for s := range ss {
		if s.Acquire.Outcome() == history.Fail {
			continue // a hold after a failed acquire is a conflict by itself
		}
		for _, o := range operations(s) {
			if o.outcome == history.OK {
				proofsByClient[s.Client()] = append(proofsByClient[s.Client()], proof{o, s})
				if o.op == history.OpRelease {
					break // a hold after this is a conflict by itself
				}
			}
		}
	}
	for _, all := range proofsByClient {
		slices.SortFunc(all, func(a, b proof) int { return cmp.Compare(a.op.order(), b.op.order()) })
		lastOps := map[*facts.Session]leaseOp{}
		for i, x := range all {
			if earlier, ok := lastOps[x.session]; ok && all[i-1].session != x.session && h.conflicts[x.session] == nil {
				other := all[i-1]
				h.conflicts[x.session] = &conflict{kind: verdict.Overlap, sessions: []*facts.Session{x.session, other.session},
					ops: []leaseOp{earlier, other.op, x.op}, From: other.op.call, To: other.op.ret}
			}
			lastOps[x.session] = x.op
			if i > 0 && all[i-1].session != x.session && h.endProofs[all[i-1].session].session == nil {
				h.endProofs[all[i-1].session] = x
			}
		}
	}
	return h
}

// markLate marks the releases that cannot have ended a session's hold.
func (h *handles) markLate(s *facts.Session, ops []leaseOp) []leaseOp {
	x := h.endProofs[s]
	for i := range ops {
		o := &ops[i]
		o.late = x.session != nil && o.op == history.OpRelease && o.outcome == history.Info && o.order() > x.op.order()
	}
	return ops
}

// explain completes a conflict that contains late releases: it adds the session that shows that
// they were late.
func (h *handles) explain(c *conflict, operations func(*facts.Session) []leaseOp) {
	for _, s := range slices.Clone(c.sessions) {
		if x := h.endProofs[s]; x.session != nil && !slices.Contains(c.sessions, x.session) && slices.ContainsFunc(operations(s), func(o leaseOp) bool { return o.late }) {
			c.sessions, c.ops = append(c.sessions, x.session), append(c.ops, x.op)
		}
	}
}

// hold is the span during which a session held its lock according to its answers. A handle is
// acquired once, so in any order that explains the answers the session holds the lock for one span:
//
//	acquire call          returns           first release, or earliest lapse
//	     |------------------|====================|- - - - - - - - -
//	  earliest start      from      must       to   may
//
// The span begins no later than the first return that shows that the session held the lock. It
// lasts at least until the last call that shows it, and until something could have ended it. If
// from < to, the hold is firm: the session held the lock throughout. Otherwise the hold is brief:
// it may have lasted only for one instant between to and from, so From and To are swapped.
type hold struct {
	spans.Window
	firm  bool
	first *history.Event // the first call that shows the hold
}

// compareFirst orders a client's holds by their first calls.
func compareFirst(a, b hold) int { return cmp.Compare(a.first.N, b.first.N) }

// conflict is a violation with its proof. kind is one of verdict's kinds of lease violations.
type conflict struct {
	kind     string
	sessions []*facts.Session
	ops      []leaseOp
	From, To int64
}

func newOverlap(o spans.Overlap) *conflict {
	return &conflict{kind: verdict.Overlap, sessions: []*facts.Session{o.A.Session, o.B.Session}, From: o.From, To: o.To}
}

// holdOf returns the hold that a session's evidence implies, or held = false if the session need
// not have held the lock at all. Contradictory evidence is returned as a conflict. A lost-early
// conflict comes with a hold, too. That hold ends when the client learned of the loss or called the
// release that was answered "not held".
func (e *evidence) holdOf(s *facts.Session) (h hold, held bool, selfConflict *conflict) {
	newConflict := func(kind string, from, to int64, ops ...leaseOp) *conflict {
		return &conflict{kind: kind, sessions: []*facts.Session{s}, ops: ops, From: from, To: to}
	}
	switch {
	case e.firstProof == nil:
		return h, false, nil
	case e.failed:
		return h, false, newConflict(verdict.Phantom, e.firstProof.call, e.firstProof.ret, *e.firstProof)
	case e.heldAfterRelease != nil && e.heldAfterRelease.op == history.OpRelease:
		return h, false, newConflict(verdict.DoubleRelease, e.release.call, e.heldAfterRelease.ret, *e.release, *e.heldAfterRelease)
	case e.heldAfterRelease != nil:
		return h, false, newConflict(verdict.HeldAfter, e.release.ret, e.heldAfterRelease.call, append(e.bounds(), *e.heldAfterRelease)...)
	}
	from := e.firstProof.ret
	to, _, _ := e.earliestEnd()
	h = hold{spans.Window{From: from, To: to, Session: s}, from < to, e.firstProof.Call}
	if !h.firm {
		h.From, h.To = to, from
	}
	refusal := e.refusal
	if refusal == nil || !e.heldAfterRefusal && to <= refusal.ret {
		return h, true, nil
	}
	if !e.heldAfterRefusal { // from the refusal on, the session need not have excluded others
		end := refusal.ret
		if refusal.op == history.OpRelease { // the client had given up the lock
			end = refusal.call
		}
		h.To, h.firm = end, from < end
	}
	return h, h.firm, newConflict(verdict.LostEarly, refusal.call, refusal.ret, append(e.bounds(), *refusal)...)
}

// evidence sorts a session's operations by what they show, in the order of its client's calls. This
// order is certain, whatever the timestamps. So the session no longer held the lock after the
// answer "not held", unless its acquire had no answer and may take effect later.
type evidence struct {
	failed                bool     // the acquire failed, or there is none
	acquire               *leaseOp // nil if it failed
	firstProof, lastProof *leaseOp // the first and last operation (acquire, extension or release) that show that the session held the lock
	lastExtension         *leaseOp // the last extension
	release               *leaseOp // the release that succeeded
	heldAfterRelease      *leaseOp // the first operation after that release that shows that the session held the lock
	refusal               *leaseOp // the first "not held" after the session was shown to hold the lock
	heldAfterRefusal      bool     // an operation after the refusal shows that the session held the lock
	unknownRelease        *leaseOp // the first release of unknown outcome before the refusal; it may have ended the hold
	numAnswers            int      // number of answered extensions and releases
	numUnanswered         int      // number of extensions and releases without a definite answer
}

func (e *evidence) read(ops []leaseOp) {
	*e = evidence{failed: true}
	for i := range ops {
		o := &ops[i]
		switch {
		case o.op == history.OpAcquire:
			e.failed, e.acquire = false, o
			if o.outcome == history.OK {
				e.addProof(o)
			}
		case o.outcome == history.Info:
			e.numUnanswered++
			if e.unknownRelease == nil && e.refusal == nil && !o.late {
				e.unknownRelease = o
			}
		case o.outcome == history.Fail:
			e.numAnswers++
			if e.firstProof != nil && e.release == nil && e.refusal == nil {
				e.refusal = o
			}
		default:
			e.numAnswers++
			e.addProof(o)
		}
	}
}

// addProof adds an operation that shows that the session held the lock.
func (e *evidence) addProof(o *leaseOp) {
	e.heldAfterRefusal = e.heldAfterRefusal || e.refusal != nil
	if e.release != nil {
		if e.heldAfterRelease == nil {
			e.heldAfterRelease = o
		}
		return
	}
	if e.firstProof == nil {
		e.firstProof = o
	}
	e.lastProof = o
	switch o.op {
	case history.OpExtend:
		e.lastExtension = o
	case history.OpRelease:
		e.release = o
	}
}

// earliestEnd returns the earliest instant at which the hold can have ended, and the operations
// that determine it. The hold ended neither before the last call that shows it nor before anything
// could have ended it.
func (e *evidence) earliestEnd() (to int64, endOp, releaseOp *leaseOp) {
	lastProofCall := e.lastProof.call
	if e.release != nil {
		return lastProofCall, e.release, nil
	}
	endOp = e.lastExtension // it determines the lapse
	if endOp == nil {
		endOp = e.acquire
	}
	end := endOp.lapse
	if e.unknownRelease != nil && e.unknownRelease.call < end {
		end, releaseOp = e.unknownRelease.call, e.unknownRelease
	}
	if lastProofCall > end {
		return lastProofCall, e.lastProof, nil
	}
	return end, endOp, releaseOp
}

func (e *evidence) bounds() []leaseOp {
	ops := []leaseOp{*e.acquire}
	_, endOp, releaseOp := e.earliestEnd()
	for _, o := range []*leaseOp{e.firstProof, endOp, releaseOp} {
		if o != nil {
			ops = append(ops, *o)
		}
	}
	return ops
}
