package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

// outage describes a violation of liveness. It begins at its cause: the attempt or session whose
// keys stayed on nodes, or the call that did not return.
//
//	c1 sets its keys      nobody acquires, by the verdict       c2 acquires
//	      |--------------|====================================|-----|
//
// Everything in it comes from the record: which key was on a node when the node refused an attempt,
// who had set it, and how long it stayed.
type outage struct {
	f    *course
	harm *verdict.Result
	key  string
	to   int64 // end of the outage or of the record

	last *session // last holder, if neither keys nor calls explain the outage; nil: none
	left []*leftKeys
	more []*leftKeys // not drawn
	hung []hungCall
	vain []*futile // by client, the one with the most attempts first
	next *session  // session whose acquire ended the outage; nil: none
	wait wait      // longest wait of next in its winning attempt
}

// replyWait is the longest span in which a winning attempt only waited for the replies of some
// nodes.
type wait struct {
	nodes    []string // empty: no such span
	from, to int64
}

// longestWait finds the nodes for which a session waited before it had the lock. A node that it
// never contacted, for example because it could not connect, counts only if the session waited for
// no other node.
func waitOf(f *course, s *session) (w wait) {
	if s.won == nil {
		return w
	}
	at := []int64{s.begin}
	for _, e := range s.won {
		at = append(at, e.Sent)
		if e.Answered != 0 && e.Answered < s.begin {
			at = append(at, e.Answered)
		}
	}
	slices.Sort(at)
	for i := range at[1:] {
		if minus(at[i+1], at[i]) > minus(w.to, w.from) {
			w.from, w.to = at[i], at[i+1]
		}
	}
	var never []string
	for _, n := range f.nodes() {
		switch e := commandTo(s.won, n); {
		case e == nil:
			never = append(never, n)
		case e.Sent <= w.from && (e.Answered == 0 || e.Answered >= w.to):
			w.nodes = append(w.nodes, n)
		}
	}
	if len(w.nodes) == 0 {
		w.nodes = never
	}
	if minus(w.to, w.from) <= f.slow() {
		return wait{}
	}
	return w
}

// leftKeys are keys that an attempt left on nodes after its end, and that made them refuse later
// attempts.
type leftKeys struct {
	of      *facts.Attempt // nil: the links recorded no such attempt
	first   *facts.Attempt // earlier attempt whose requests this one repeats with the same token; nil: none
	session *session       // session of the attempt, or nil
	client  string
	stays   []*facts.Stay
	refused int // number of votes refused
}

// hungCall is a call that did not return during the outage, or an acquire that sent no request for
// longer than the bound.
type hungCall struct {
	*session
	facts.Operation
	asked int64          // when the acquire was called or sent its last request before the pause
	again int64          // when it sent the next request; never: none
	last  *facts.Attempt // last attempt before the pause; nil: none
}

// The numbers that a reader can follow.
const (
	mostLeft = 2
	mostHung = 2
)

// outageOf returns the outage behind a violation of liveness, or nil if r is not one.
func outageOf(f *course, r *verdict.Result) *outage {
	if r == nil || r.Witness == nil || r.Outcome != verdict.Violated || r.Property != verdict.FaultTolerance && r.Property != verdict.DeadlockFreedom {
		return nil
	}
	o := &outage{f: f, harm: r, key: r.Witness.Key, to: min(r.Witness.To, f.last)}
	for _, s := range f.sessions {
		if s.Granted() && s.Key() == o.key && s.begin == r.Witness.To {
			o.next = s
		}
	}
	if o.next != nil {
		o.wait = waitOf(f, o.next)
	}
	o.findHung()
	o.findVain()
	o.findLast()
	return o
}

// findHolder finds the holder that the verdict names.
func (o *outage) findLast() {
	for _, name := range o.harm.Witness.Sessions {
		s := o.f.named[name]
		if s == nil || s == o.next || s.Acquire.Call.T >= o.harm.Witness.From || !s.Granted() && o.harm.Property != verdict.DeadlockFreedom {
			continue
		}
		if o.harm.Property == verdict.DeadlockFreedom || len(o.left) == 0 && !slices.ContainsFunc(o.hung, func(h hungCall) bool { return h.session == s }) {
			o.last = s
		}
		return
	}
}

// findHung finds calls of the witness's sessions that did not return, and acquires that sent no
// request for longer than the bound.
func (o *outage) findHung() {
	if !slices.Contains([]string{verdict.Hung, verdict.WaitedLong, verdict.Unexplained}, o.harm.Cause) {
		return
	}
	w := o.harm.Witness
	for _, s := range o.f.sessions {
		if s.Key() != o.key || len(o.hung) == mostHung {
			continue
		}
		for _, c := range s.calls {
			if c.Call.T >= o.to || c.Ended() < w.To {
				continue
			}
			call := hungCall{session: s, Operation: c}
			switch c.Call.Op {
			case history.OpAcquire:
				o.findPause(&call)
				if minus(min(o.to, call.again), call.asked) <= o.harm.Bound {
					continue
				}
			case history.OpRelease, history.OpExtend:
				if !slices.Contains(w.Sessions, s.Name()) {
					continue
				}
			default:
				continue
			}
			o.hung = append(o.hung, call)
		}
	}
}

// findPause finds the span in which an acquire sent no request, before it got the lock or before
// the outage ended.
func (o *outage) findPause(h *hungCall) {
	h.asked, h.again = h.Call.T, never
	for _, a := range o.attempts() {
		for _, e := range a.Asked {
			switch {
			case a.Session != h.Session:
			case a.Won:
				h.again = min(h.again, e.Sent)
			case e.Sent < o.to && e.Sent > h.asked:
				h.last, h.asked = a, e.Sent
			}
		}
	}
}

// attempts lists the attempts that began before the outage ended.
func (o *outage) attempts() []*facts.Attempt {
	w := o.f.Wires()[o.key]
	if w == nil {
		return nil
	}
	i, _ := slices.BinarySearchFunc(w.Attempts, o.to, func(a *facts.Attempt, at int64) int { return cmp.Compare(a.From, at) })
	return w.Attempts[:i]
}

// findFailed finds the failed attempts and the keys that blocked them.
func (o *outage) findVain() {
	var tried []*facts.Attempt
	refused := map[*facts.Stay]int{}
	for _, a := range o.attempts() {
		if a.Won || a.From < o.harm.Witness.From && a.Over <= o.harm.Witness.From {
			continue
		}
		tried = append(tried, a)
		for _, e := range a.Asked {
			if s := o.f.keyThere(e, a.From); s != nil && a.From >= o.harm.Witness.From && o.isOver(s, a.From) {
				refused[s]++
			}
		}
	}
	if o.aboutKeys() {
		o.findLeft(refused)
	}
	of := map[string]*futile{}
	for _, a := range tried {
		if o.toldApart(a) {
			continue
		}
		client := a.Session.Client()
		if of[client] == nil {
			of[client] = newFutile(o.f, client)
			o.vain = append(o.vain, of[client])
		}
		of[client].add(a.From, a.Asked)
		if over := min(a.Over, o.f.last); o.harm.Cause == verdict.WaitedLong && minus(over, a.From) > max(minus(of[client].longest[1], of[client].longest[0]), minus(o.wait.to, o.wait.from)) {
			of[client].longest = [2]int64{a.From, over}
		}
	}
	slices.SortStableFunc(o.vain, func(a, b *futile) int { return cmp.Compare(b.rounds, a.rounds) })
}

// keysMatter reports whether leftover keys can be the verdict's cause.
func (o *outage) aboutKeys() bool {
	return !slices.Contains([]string{verdict.WaitedLong, verdict.SplitVote, verdict.TurnedAway, verdict.TooFewVotes, verdict.GaveUp, verdict.Hung}, o.harm.Cause)
}

// drawnSeparately reports whether an attempt is drawn by itself, because its keys were left or its
// acquire hung.
func (o *outage) toldApart(a *facts.Attempt) bool {
	return slices.ContainsFunc(o.left, func(l *leftKeys) bool { return l.of == a || l.first == a }) ||
		slices.ContainsFunc(o.hung, func(h hungCall) bool { return h.last == a })
}

// attemptEnded reports whether the attempt that set a key had ended by an instant. A failed attempt
// ends by itself. A successful one ends a node time-out after its holder called release, which is
// time to contact a node, or when its client died.
func (o *outage) isOver(s *facts.Stay, at int64) bool {
	a := o.owner(s)
	if a == nil {
		return true
	}
	over := a.Over
	if call := a.Session.FirstRelease(); a.Won && call != nil {
		over = min(over, plus(call.T, int64(o.f.Params.NodeTimeout)))
	}
	return over <= at
}

// owner returns the attempt that set a key on a node, or nil.
func (o *outage) owner(s *facts.Stay) *facts.Attempt {
	put := cmp.Or(s.Put.Sent, s.From())
	for _, a := range slices.Backward(o.attempts()) {
		if a.From <= put && s.Holds(a.Token) && a.Session.Client() == facts.LinkClient(s.By()) {
			return a
		}
	}
	return nil
}

// findLeftKeys groups the keys that blocked attempts by the attempts that left them, and keeps the
// groups that blocked the most.
func (o *outage) findLeft(refused map[*facts.Stay]int) {
	for _, node := range o.f.nodes() {
		for _, s := range o.f.Lives().Stays(node, o.key) {
			if refused[s] == 0 {
				continue
			}
			a := o.owner(s)
			i := slices.IndexFunc(o.left, func(l *leftKeys) bool { return l.of == a && (a != nil || l.stays[0].Value == s.Value) })
			if i < 0 {
				l := &leftKeys{of: a, client: facts.Doer(s.Put)}
				if a != nil {
					l.session, l.first = o.f.of[a.Session], o.repeated(a)
				}
				i, o.left = len(o.left), append(o.left, l)
			}
			o.left[i].stays, o.left[i].refused = append(o.left[i].stays, s), o.left[i].refused+refused[s]
		}
	}
	slices.SortStableFunc(o.left, func(a, b *leftKeys) int { return cmp.Compare(b.refused, a.refused) })
	n := min(len(o.left), mostLeft)
	o.left, o.more = o.left[:n], o.left[n:]
	slices.SortStableFunc(o.left, func(a, b *leftKeys) int { return cmp.Compare(a.stays[0].From(), b.stays[0].From()) })
}

// original returns the first attempt with the token of an attempt that did not belong to its
// session, for example because a driver resends what its client has given up. It returns nil if the
// attempt is not a repetition.
func (o *outage) repeated(a *facts.Attempt) *facts.Attempt {
	for _, b := range o.attempts() {
		if b == a || a.Over > a.From {
			return nil
		}
		if b.Token == a.Token && b.Session.Client() == a.Session.Client() {
			return b
		}
	}
	return nil
}

// start returns when the cause of the outage began.
func (o *outage) from() int64 {
	at := o.harm.Witness.From
	for _, l := range o.left {
		for _, s := range l.stays {
			at = min(at, s.From())
		}
		if l.of != nil {
			at = min(at, l.of.From)
		}
		if l.first != nil {
			at = min(at, l.first.From)
		}
	}
	if o.last != nil {
		at = min(at, o.last.start())
	}
	for _, v := range o.vain {
		at = min(at, v.from)
	}
	for _, h := range o.hung {
		at = min(at, h.Call.T)
		if h.Granted() {
			at = min(at, h.start())
		}
	}
	return at
}

// sessions lists the drawn sessions: those whose keys were left or whose call hung, the last
// holder, and the one that got the lock.
func (o *outage) sessions() (all []*session) {
	add := func(s *session) {
		if s != nil && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if o.harm.Property == verdict.DeadlockFreedom {
		add(o.last)
	}
	for _, l := range o.left {
		add(l.session)
	}
	for _, h := range o.hung {
		add(h.session)
	}
	add(o.last)
	add(o.next)
	return all
}

// clients lists the clients that have a lane: those of the drawn sessions, and those with the most
// attempts.
func (o *outage) clients() []string {
	var out []string
	for _, s := range o.sessions() {
		out = append(out, s.Client())
	}
	for _, v := range o.vain {
		out = append(out, v.client)
	}
	for _, name := range o.harm.Witness.Sessions {
		if s := o.f.named[name]; s != nil && len(o.vain) == 0 {
			out = append(out, s.Client())
		}
	}
	out = unique(out)
	return out[:min(mostClients, len(out))]
}

// signature distinguishes nodes with different leftover keys, or with keys that ended differently.
func (o *outage) signature(node string) string {
	var parts []string
	for i, l := range o.left {
		for _, s := range l.stays {
			if s.Node == node {
				parts = append(parts, fmt.Sprint("key ", i, o.fate(l, s)))
			}
		}
	}
	return strings.Join(parts, ", ")
}

// outageDrawing draws an outage.
type outageDrawing struct {
	*builder
	*outage
}

// draw draws the cause of the outage, the failed attempts, and its end.
func (b outageDrawing) draw() {
	o := b.outage
	drawn := map[*session]bool{}
	if s := o.last; s != nil {
		drawn[s] = true
		b.drawGranted(s)
		b.drawLease(s)
		b.drawReturns(s)
	}
	for _, l := range o.left {
		if s := l.session; s != nil && l.of.Won && !drawn[s] {
			drawn[s] = true
			b.drawGranted(s)
			b.drawLease(s)
			b.drawReturns(s)
		} else if s != nil && !l.of.Won {
			if l.first != nil {
				b.drawAttempt(l.first, "")
			}
			b.drawAttempt(l.of, map[bool]string{true: " again"}[l.first != nil])
			drawn[s] = true
		}
		b.drawLeft(l)
	}
	for _, h := range o.hung {
		b.drawHung(h)
		if h.Call.Op != history.OpAcquire && !drawn[h.session] {
			drawn[h.session] = true
			b.drawGranted(h.session)
			b.drawLease(h.session)
			b.drawReturns(h.session)
		}
	}
	for _, client := range b.scene.clients() {
		b.drawFailures(client, failures(b.scene, func(s *session) bool { return s.Client() == client && s.Key() == o.key }))
	}
	for _, v := range o.vain {
		if lane, ok := b.lanes.of(v.client); ok {
			b.drawFutile(v, lane, true)
		} else if len(b.scene.clients()) == mostClients && len(o.vain) <= mostClients+1 {
			b.tellFutile(v)
		} else {
			b.scene.unseen += v.rounds
		}
	}
	b.drawHarm()
	if o.next != nil && !drawn[o.next] {
		b.drawGranted(o.next)
		b.drawLease(o.next)
	}
}

// drawWait draws the nodes for which the acquire that ended an outage waited, and the replies that
// it had by then. It returns the lanes whose replies came later, which are not drawn yet.
func (b *builder) drawWait(me int, g grant, lanes []laneEvents) (later []laneEvents) {
	o := b.scene.out
	if o == nil || g.s != o.next || len(o.wait.nodes) == 0 {
		return lanes
	}
	who, w := short(g.s.Client()), o.wait
	label, words := who+" waits", "waited"
	early := votes(g.won, w.from)
	if len(early) > 0 {
		had := fmt.Sprintf("%d of %d votes", len(early), g.voters)
		label, words = fmt.Sprintf("%s has %s, and waits", who, had), fmt.Sprintf("had %s at %s, and waited", had, display.Seconds(w.from))
	}
	b.sheet.facts++
	for _, l := range lanes {
		if slices.ContainsFunc(l.events, func(e *event) bool { return slices.Contains(g.votes, e.Node) && !slices.Contains(early, e.Node) }) {
			later = append(later, l)
			continue
		}
		l.events = slices.DeleteFunc(l.events, func(e *event) bool { return !slices.Contains(early, e.Node) })
		if len(l.events) > 0 {
			answered := slices.Max(stamps(l.events, func(e *event) int64 { return e.Answered }))
			b.sheet.message(arrow{From: l.lane, To: me, Answer: true, Label: fmt.Sprintf("ok %d/%d", len(early), g.voters),
				Sent: min(l.applied(), answered), Arrived: answered, Events: numbers(l.events...)})
		}
	}
	nodes := nodeList(w.nodes)
	b.sheet.note(note{Lane: me, At: w.from, Mark: dot, Bad: true, Label: fmt.Sprintf("%s for %s until %s", label, nodes, display.Seconds(w.to)), Events: numbers(g.won...)})
	b.caption.tell(w.from, who, fmt.Sprintf("%s for %s %s", words, nodes, map[bool]string{true: "until " + display.Seconds(w.to), false: display.FromTo(w.from, w.to)}[len(early) > 0]))
	return later
}

// drawExtendsAndReleases draws how a session extended and released its lock.
func (b outageDrawing) drawReturns(s *session) {
	lane, ok := b.lanes.of(s.Client())
	for _, c := range s.calls {
		switch {
		case !ok || !b.scene.shown(c.Call.T):
		case c.Call.Op == history.OpRelease:
			b.drawRelease(s, c, lane)
		case c.Call.Op == history.OpExtend:
			b.drawExtend(s, c, lane)
		}
	}
}

// drawAttempt draws the requests of a failed attempt and the releases of its keys.
func (b outageDrawing) drawAttempt(a *facts.Attempt, again string) {
	client := a.Session.Client()
	me, ok := b.lanes.of(client)
	if !ok {
		return
	}
	draw := func(label, detail, words string, requests []*event) {
		requests = slices.DeleteFunc(slices.Clone(requests), func(e *event) bool { return e.Sent == 0 || !b.scene.shown(e.Sent) })
		if len(requests) == 0 {
			return
		}
		b.sheet.facts++
		for _, g := range b.lanes.byLane(requests) {
			m := arrow{From: me, To: g.lane, Label: label, Detail: detail, Sent: g.sent(), Arrived: g.applied(), Events: numbers(g.events...)}
			m.Lost = m.Arrived == 0 || m.Arrived > b.scene.to
			b.sheet.message(m)
		}
		nodes, sent := nodeList(nodesOf(requests)), stamps(requests, func(e *event) int64 { return e.Sent })
		b.caption.tell(slices.Min(sent), short(client), fmt.Sprintf(words, nodes, moment("at", sent)))
	}
	key := short(a.Session.Key())
	draw("acquire", short(client)+" tries to acquire "+key+again, "asked %s for "+key+again+" %s", a.Asked)
	draw("release", short(client)+" deletes its keys", "sent a release of its key to %s %s", a.Deletes)
}

// failure groups the acquires of one client that failed in the same way.
type failure struct {
	how, why string // why is the lock's own message
	at       []int64
	returns  []*event
}

// failures lists how the acquires of the selected sessions failed.
func failures(sc *scene, of func(*session) bool) (all []*failure) {
	for _, s := range sc.f.sessions {
		ret := s.Acquire.Return
		if ret == nil || s.Granted() || !sc.shown(ret.T) || !of(s) {
			continue
		}
		how, why := "failed", display.Fit(strings.TrimRight(strings.ReplaceAll(ret.Cause, "\n", "; "), "."), longestSaw)
		if ret.Type == history.Info {
			how = "ended with an unknown outcome"
		}
		i := slices.IndexFunc(all, func(f *failure) bool { return f.how == how && f.why == why })
		if i < 0 {
			i, all = len(all), append(all, &failure{how: how, why: why})
		}
		all[i].at, all[i].returns = append(all[i].at, ret.T), append(all[i].returns, ret)
	}
	slices.SortStableFunc(all, func(a, b *failure) int { return cmp.Compare(len(b.at), len(a.at)) })
	return all[:min(len(all), mostFailures)]
}

// maxFailures is how many kinds of failure a reader can follow.
const mostFailures = 3

// failuresOf lists how a session's acquire failed. In a run in which nobody got the lock, it
// includes all acquires of the client.
func failuresOf(sc *scene, s *session) []*failure {
	return failures(sc, func(o *session) bool {
		return o == s || sc.f.Grants == 0 && o.Client() == s.Client() && o.Key() == s.Key()
	})
}

// drawFailures notes that a client's acquires failed, with the lock's own message.
func (b *builder) drawFailures(client string, all []*failure) {
	lane, ok := b.lanes.of(client)
	if !ok {
		return
	}
	for _, f := range all {
		why, first, last := "", slices.Min(f.at), slices.Max(f.at)
		if f.why != "" {
			why = ": " + f.why
		}
		now := map[string]string{"failed": "fails"}[f.how]
		label := fmt.Sprintf("%s's acquire %s", short(client), cmp.Or(now, "ends with an unknown outcome"))
		words := fmt.Sprintf("acquire %s ", f.how)
		if len(f.at) > 1 {
			label += " " + display.Times(len(f.at)) + ", until " + display.Seconds(last)
			words += display.Times(len(f.at)) + " "
		}
		b.sheet.note(note{Lane: lane, At: first, Mark: cross, Label: label + why, Events: numbers(f.returns...)})
		b.caption.tellOf(first, short(client), words+display.FromTo(first, last)+why)
	}
}

// keyFate is what happened to a key that was left on a node, and what its client did about it.
type keyFate struct {
	end     string // verb for its end; "" or "forever": it existed until the end of the record
	by      string // subject of that verb
	release string // the client's release: none, before the key, in vain or lost
	renewed int
}

// drawLeftKeys draws the keys that an attempt left. Keys of one lane with the same fate are drawn
// together.
func (b outageDrawing) drawLeft(l *leftKeys) {
	o := b.outage
	type same struct {
		lane int
		keyFate
	}
	whose := possessive(l.client) + " key"
	for _, g := range grouped(l.stays, func(s *facts.Stay) same {
		lane, _ := b.lanes.of(s.Node)
		return same{lane, o.fate(l, s)}
	}) {
		lane, _ := b.lanes.of(g[0].Node)
		var events []*event
		for _, s := range g {
			events = append(events, s.Put, s.End)
		}
		put, gone := stamps(g, (*facts.Stay).From), stamps(g, o.gone)
		on, off := slices.Max(put), slices.Min(gone)
		label := fmt.Sprintf("%s is on %s, and stays %s", whose, nodeList(staysOn(g)), moment("until", gone))
		b.sheet.note(note{Lane: lane, At: on, Mark: dot, Bad: true, Label: label, Events: numbers(events...)})
		if len(b.lanes.all[lane].Members) == len(g) {
			b.sheet.bar(lane, keeps, on, off, events...)
		}
		if last := slices.Max(gone); last < o.to {
			b.sheet.note(note{Lane: lane, At: last, Mark: ring, Label: fmt.Sprintf("%s is gone from %s", whose, nodeList(staysOn(g))), Events: numbers(events...)})
		}
		b.caption.tell(slices.Min(put), nodeList(staysOn(g)), fmt.Sprintf("set %s %s and kept it %s%s%s", whose, moment("at", put), moment("until", gone),
			o.ended(g), o.undone(l, g)))
	}
}

// goneAt returns when a key was gone, or the end of the record if that is earlier.
func (o *outage) gone(s *facts.Stay) int64 { return min(s.To(), o.f.last) }

func (o *outage) fate(l *leftKeys, s *facts.Stay) keyFate {
	var f keyFate
	switch {
	case s.To() > o.f.last && s.Due() == never:
		f.end = "forever"
	case s.To() > o.f.last:
	case s.End == nil || s.End.Life.What == history.KeyExpired:
		f.end = "expired"
	case s.End.Life.What == history.KeyDeleted:
		f.end, f.by = "deleted", facts.Doer(s.End)
	case s.End.Life.What == history.KeyChanged:
		f.end, f.by = "overwrote", facts.Doer(s.End)
	default:
		f.end, f.by = "lost", "the node"
	}
	if l.of == nil {
		return f
	}
	f.renewed = len(l.renewals(o.f, s))
	switch sent, early, late := l.releases(s, o.to); {
	case f.end == "deleted" && f.by == l.client:
	case len(sent) == 0:
		f.release = "none"
	case len(late) > 0:
		f.release = "in vain"
	case len(early) > 0:
		f.release = "before the key"
	default:
		f.release = "lost"
	}
	return f
}

// releases returns when the client sent releases of a key that it left, and when releases arrived
// before and after the key was set.
func (l *leftKeys) releases(s *facts.Stay, before int64) (sent, early, late []int64) {
	for _, d := range l.of.Deletes {
		switch {
		case d.Node != s.Node || d.Sent == 0 || d.Sent >= before:
			continue
		case d.Applied == 0 || d.Applied > before:
		case d.Applied < s.From():
			early = append(early, d.Applied)
		default:
			late = append(late, d.Applied)
		}
		sent = append(sent, d.Sent)
	}
	return sent, early, late
}

// endClause explains how keys of one fate ended, as the end of a clause.
func (o *outage) ended(g []*facts.Stay) string {
	switch f := o.fate(&leftKeys{}, g[0]); {
	case f.end == "forever":
		return ", the end of the record; it has no expiry"
	case f.end == "":
		return ", the end of the record; it expires " + moment("at", stamps(g, (*facts.Stay).Due))
	case f.end == "expired":
		return ", when it expired"
	default:
		return fmt.Sprintf(", when %s %s it", short(f.by), f.end)
	}
}

// clientClause describes what the client did about keys of one fate that it left, as the end of a
// sentence.
func (o *outage) undone(l *leftKeys, g []*facts.Stay) (text string) {
	f, who := o.fate(l, g[0]), short(l.client)
	var renewed, sent, early, late []int64 // the last instant on each node
	last := func(to *[]int64, at []int64) {
		if len(at) > 0 {
			*to = append(*to, slices.Max(at))
		}
	}
	for _, s := range g {
		if l.of != nil {
			a, b, c := l.releases(s, o.to)
			last(&renewed, l.renewals(o.f, s))
			last(&sent, a)
			last(&early, b)
			last(&late, c)
		}
	}
	if f.renewed > 0 {
		text = fmt.Sprintf("; %s renewed it %s, last %s", who, display.Times(f.renewed), moment("at", renewed))
	}
	switch f.release {
	case "none":
		text += fmt.Sprintf("; %s sent no release of it there", who)
	case "in vain":
		text += fmt.Sprintf("; %s's release, which arrived %s, did not delete it", who, moment("at", late))
	case "before the key":
		text += fmt.Sprintf("; %s's release had arrived before it, %s", who, moment("at", early))
	case "lost":
		text += fmt.Sprintf("; %s's release, sent %s, never arrived", who, moment("at", sent))
	}
	return text
}

// renewals returns when a node extended a key for the client that left it.
func (l *leftKeys) renewals(f *course, s *facts.Stay) (at []int64) {
	for _, e := range f.Links {
		if e.Op == history.OpExtend && e.Type == history.OK && e.Node == s.Node && e.Token == l.of.Token && s.From() <= e.Applied && e.Applied <= min(s.To(), f.last) && facts.Sender(e) == l.client {
			at = append(at, e.Applied)
		}
	}
	return at
}

// drawHung notes a call that did not return.
func (b outageDrawing) drawHung(h hungCall) {
	o := b.outage
	lane, ok := b.lanes.of(h.Client())
	if !ok {
		return
	}
	who, op := short(h.Client()), h.Call.Op
	text, at := " has not returned by "+display.Seconds(o.to), h.Call.T
	if op == history.OpAcquire {
		text, at = h.silence(o.to, "sends", "has", "returns"), h.asked
		if h.last != nil {
			b.drawAttempt(h.last, "")
			w := newFutile(o.f, h.Client())
			w.add(h.last.From, h.last.Asked)
			b.tellFutile(w)
		}
	}
	b.sheet.note(note{Lane: lane, At: at, Mark: cross, Bad: true, Label: fmt.Sprintf("%s's %s%s", who, op, text), Events: numbers(h.Call, h.Return)})
	told := " had not returned by " + display.Seconds(o.to)
	if op == history.OpAcquire {
		told = h.silence(o.to, "sent", "had", "returned")
	}
	b.caption.tellOf(at, who, fmt.Sprintf("%s, called at %s,%s%s", op, display.Seconds(h.Call.T), told, o.bound(o.onlyHung())))
}

// silenceClause describes how long an acquire sent no request.
func (h hungCall) silence(to int64, asks, has, returns string) string {
	text := fmt.Sprintf(" %s no request after %s", asks, display.Seconds(h.asked))
	switch {
	case h.again < to:
		return text + " until " + display.Seconds(h.again)
	case h.Ended() > to:
		return text + fmt.Sprintf(" and %s not returned by %s", has, display.Seconds(to))
	}
	return text + " and " + returns + " at " + display.Seconds(h.Ended())
}

// onlyHung reports whether the violation is the call that hung, rather than the lack of a grant.
func (o *outage) onlyHung() bool {
	w := o.harm.Witness
	if len(o.hung) != 1 || len(w.Sessions) != 1 || w.Sessions[0] != o.hung[0].Name() {
		return false
	}
	return o.hung[0].Call.Op != history.OpAcquire || o.granted()
}

// grantedMeanwhile reports whether a client was granted the lock during the outage.
func (o *outage) granted() bool {
	return slices.ContainsFunc(o.f.sessions, func(s *session) bool {
		return s.Granted() && s.Key() == o.key && o.harm.Witness.From < s.begin && s.begin < o.to
	})
}

// boundClause states how long the outage lasted and how long it may last.
func (o *outage) bound(tell bool) string {
	if !tell {
		return ""
	}
	text := ", for " + display.Span(minus(o.to, o.harm.Witness.From))
	if o.harm.Bound > 0 {
		text += "; the bound is " + display.Span(o.harm.Bound)
	}
	return text
}

// drawSpan marks the span in which nobody got the lock.
func (b outageDrawing) drawHarm() {
	o := b.outage
	w := o.harm.Witness
	if o.onlyHung() {
		return
	}
	if len(o.more) > 0 {
		b.caption.tell(w.From, o.manyKeys(), "blocked later attempts")
	}
	b.sheet.band(w.From, o.to, "nobody gets the lock", fmt.Sprintf("NOBODY %s %s until %s%s", o.verb("s"), short(o.key), display.Seconds(o.to), o.bound(true)), w.Events)
	b.caption.tell(w.From, "nobody", fmt.Sprintf("%s %s %s%s", o.verb("d"), short(o.key), display.FromTo(w.From, o.to), o.bound(true)))
}

// verb returns the verb for what no client did during the outage. A client whose keys had expired by the time of
// its grant acquired the lock but did not hold it.
func (o *outage) verb(ending string) string {
	if o.granted() {
		return map[string]string{"s": "holds", "d": "held"}[ending]
	}
	return map[string]string{"s": "acquires", "d": "acquired"}[ending]
}

// summary returns the outage in one sentence, or "" if the verdict's own sentence says as much.
func (o *outage) summary() string {
	var why string
	switch {
	case len(o.hung) > 0 && o.hung[0].Call.Op == history.OpAcquire:
		why = fmt.Sprintf("%s's acquire%s", short(o.hung[0].Client()), o.hung[0].silence(o.to, "sent", "had", "returned"))
	case len(o.hung) > 0:
		why = fmt.Sprintf("%s's %s had not returned by %s", short(o.hung[0].Client()), o.hung[0].Call.Op, display.Seconds(o.to))
	case len(o.left) > 0 && o.harm.Cause != verdict.NoMajority:
		l := slices.MaxFunc(o.left, func(a, b *leftKeys) int { return cmp.Compare(a.refused, b.refused) })
		if len(o.more) > 0 {
			why = o.manyKeys() + " blocked later attempts"
			break
		}
		why = fmt.Sprintf("%s key stayed on %s%s", possessive(l.client), nodeList(staysOn(l.stays)), l.after())
	case o.harm.Cause == verdict.WaitedLong && len(o.wait.nodes) > 0 && !slices.ContainsFunc(o.vain, func(v *futile) bool { return v.longest[0] < v.longest[1] }):
		why = fmt.Sprintf("%s waited for %s %s", short(o.next.Client()), nodeList(o.wait.nodes), display.FromTo(o.wait.from, o.wait.to))
	case len(o.vain) > 0:
		v := o.vain[0]
		why = fmt.Sprintf("%s tried %s without success, %s", short(v.client), display.Times(v.rounds), v.atMost())
	default:
		return ""
	}
	if o.onlyHung() {
		return why + o.bound(true)
	}
	return fmt.Sprintf("%s, so nobody %s %s %s%s", why, o.verb("d"), short(o.key), display.FromTo(o.harm.Witness.From, o.to), o.bound(true))
}

// leftKeysSubject names all leftover keys if there are too many to draw.
func (o *outage) manyKeys() string {
	var clients []string
	for _, l := range slices.Concat(o.left, o.more) {
		clients = append(clients, l.client)
	}
	slices.Sort(clients)
	return fmt.Sprintf("keys left by %s of %s", display.Plural(len(clients), "attempt"), list(slices.Compact(clients)))
}

// afterClause describes what the client that left a key had done before, as the end of a clause.
func (l *leftKeys) after() string {
	switch {
	case l.of == nil || l.session == nil:
		return ""
	case l.first != nil:
		return " after an abandoned attempt"
	case !l.of.Won:
		return " after a failed attempt"
	case l.session.FirstRelease() != nil:
		return " after its release"
	case l.session.ended == facts.Died:
		return " after its client died"
	case l.session.ended == facts.Lost:
		return " after its client was notified that it had lost the lock"
	case l.session.ended == facts.Expired:
		return " after its lease had ended"
	}
	return ""
}

// possessive returns the possessive form of a name.
func possessive(name string) string {
	switch name {
	case "", "nobody":
		return "nobody's"
	}
	return short(name) + "'s"
}

func nodesOf(events []*event) (names []string) {
	for _, e := range events {
		names = append(names, e.Node)
	}
	return names
}

func staysOn(stays []*facts.Stay) (names []string) {
	for _, s := range stays {
		names = append(names, s.Node)
	}
	return names
}

// collect returns a value, such as an instant, of each element.
func stamps[T, V any](all []T, at func(T) V) (out []V) {
	for _, x := range all {
		out = append(out, at(x))
	}
	return out
}

// when formats the instants of several events: "at 1.000 s", or "between 1.000 s and 1.002 s".
func moment(at string, instants []int64) string {
	first, last := display.Seconds(slices.Min(instants)), display.Seconds(slices.Max(instants))
	if first == last {
		return at + " " + first
	}
	between := "between " + first + " and " + last
	if at == "at" {
		return between
	}
	return at + " " + between
}
