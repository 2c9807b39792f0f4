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

// outage is what a violation of liveness is about. It begins at what caused it: the attempt or the
// hold whose keys stayed on nodes, or the call that did not return.
//
//	c1 sets its keys      nobody acquires, by the verdict       c2 acquires
//	      |--------------|====================================|-----|
//
// Everything here is a fact of the record: which key was on a node when it refused an attempt, who
// had put it there, and until when it stayed.
type outage struct {
	f    *course
	harm *verdict.Result
	key  string
	to   int64 // when the outage ended, or the record

	last *session // who held it last, or was lost with it, where keys or calls don't say more; nil: nobody
	left []*leftKeys
	more []*leftKeys // that are not drawn
	hung []hungCall
	vain []*futile // by client, those with the most attempts first
	next *session  // who got the lock at its end; nil: nobody
	wait wait      // of next, in the attempt that won
}

// wait is the longest time in which an attempt that got the lock did nothing but wait for the answers of some nodes.
type wait struct {
	nodes    []string // none: it did not
	from, to int64
}

// waitOf finds for which nodes a session waited until it had the lock. Of a node that it never got to ask, as when it
// can't connect, it waited if it waited for no other.
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

// leftKeys are keys that an attempt left on nodes after its end, where they refused later attempts.
type leftKeys struct {
	of      *facts.Attempt // nil: of none that the links saw
	first   *facts.Attempt // an earlier one with its token, of which its requests are a repetition; nil: none
	session *session       // of the attempt, or nil
	client  string
	stays   []*facts.Stay
	refused int // votes
}

// hungCall is a call that did not return in the outage, or an acquire that asked no node for longer than the bound.
type hungCall struct {
	*session
	facts.Operation
	asked int64          // an acquire sent its last request before the pause then, or was called
	again int64          // and its next; never: none
	last  *facts.Attempt // the last before the pause; nil: none
}

// Most that a reader can follow.
const (
	mostLeft = 2
	mostHung = 2
)

// outageOf returns the outage behind a violation of liveness, or nil if r is none.
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

// findLast finds the holder that the verdict tells of.
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

// findHung finds the calls that did not return, of the witness's sessions, and acquires that asked no node for
// longer than the bound.
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

// findPause finds when an acquire asked nobody until it got the lock, or until the outage ended.
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

// attempts lists the attempts that were begun before the outage ended.
func (o *outage) attempts() []*facts.Attempt {
	w := o.f.Wires()[o.key]
	if w == nil {
		return nil
	}
	i, _ := slices.BinarySearchFunc(w.Attempts, o.to, func(a *facts.Attempt, at int64) int { return cmp.Compare(a.From, at) })
	return w.Attempts[:i]
}

// findVain finds who tried in vain, and whose keys refused them.
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

// aboutKeys reports whether keys that were left there can be the verdict's cause.
func (o *outage) aboutKeys() bool {
	return !slices.Contains([]string{verdict.WaitedLong, verdict.SplitVote, verdict.TurnedAway, verdict.TooFewVotes, verdict.GaveUp, verdict.Hung}, o.harm.Cause)
}

// toldApart reports whether an attempt is drawn by itself: its keys were left, or its acquire hung.
func (o *outage) toldApart(a *facts.Attempt) bool {
	return slices.ContainsFunc(o.left, func(l *leftKeys) bool { return l.of == a || l.first == a }) ||
		slices.ContainsFunc(o.hung, func(h hungCall) bool { return h.last == a })
}

// isOver reports whether the attempt that put a key there was over at an instant: a failed one, one whose holder
// had called release and has had the time to ask a node, or one whose client was gone.
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

// owner is the attempt that put a key on a node, or nil.
func (o *outage) owner(s *facts.Stay) *facts.Attempt {
	put := cmp.Or(s.Put.Sent, s.From())
	for _, a := range slices.Backward(o.attempts()) {
		if a.From <= put && s.Holds(a.Token) && a.Session.Client() == facts.LinkClient(s.By()) {
			return a
		}
	}
	return nil
}

// findLeft groups the keys that refused somebody by the attempts that left them, and keeps those that refused most.
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

// repeated is the first attempt with the token of one that was never its session's own, as when a driver sends
// again what its client has given up; nil: it is no such attempt.
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

// from is when what caused the outage began.
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

// sessions lists those that are drawn: whose keys were left, whose call hung, and who got the lock.
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

// clients lists those that have a lane: those of the sessions, and who tried most often.
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

// signature sets nodes apart on which other keys were left, or became of them what they did.
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

// draw draws what led to the outage, who tried in vain, and how it ended.
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

// drawWait draws for which nodes the acquire waited by which an outage ended, and what had been answered by then. It
// returns the lanes that are still to be drawn: those with later answers.
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

// drawReturns draws how a session extended its lock and gave it back.
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

// drawAttempt draws the requests of an attempt that failed, and those by which its client took its keys back.
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
	draw("release", short(client)+" takes its keys back", "sent a release of its key to %s %s", a.Deletes)
}

// failure is the acquires of one client that failed in the same way.
type failure struct {
	how, why string // why are the lock's own words
	at       []int64
	returns  []*event
}

// failures lists how the acquires of some sessions failed.
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

// mostFailures is how many ways to fail a reader is told of.
const mostFailures = 3

// failuresOf lists how a session's acquire failed; in a run in which nobody got the lock, all of its client's.
func failuresOf(sc *scene, s *session) []*failure {
	return failures(sc, func(o *session) bool {
		return o == s || sc.f.Grants == 0 && o.Client() == s.Client() && o.Key() == s.Key()
	})
}

// drawFailures notes that a client's acquires failed, with the lock's own words.
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

// keyFate is what became of a key that was left on a node, and what its client did about it there.
type keyFate struct {
	end     string // why it was gone: a verb; "" or forever: it was there to the end of the record
	by      string // who did that
	release string // of the client's: none, before the key, in vain or lost
	renewed int
}

// drawLeft draws the keys that an attempt left, those of one lane together if the same became of them.
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

// gone is when a key was gone, or when the record ends, if that is earlier.
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

// releases is when the client sent releases of a key that it left, and when they came that came before and after the key.
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

// ended says why keys of one fate were gone, as the end of a clause.
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

// undone says what the client that left keys of one fate did about them, as the end of a sentence.
func (o *outage) undone(l *leftKeys, g []*facts.Stay) (text string) {
	f, who := o.fate(l, g[0]), short(l.client)
	var renewed, sent, early, late []int64 // of each node the last
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
		text += fmt.Sprintf("; %s's release, which came %s, did not delete it", who, moment("at", late))
	case "before the key":
		text += fmt.Sprintf("; %s's release had come before it, %s", who, moment("at", early))
	case "lost":
		text += fmt.Sprintf("; %s's release, sent %s, never came", who, moment("at", sent))
	}
	return text
}

// renewals is when a node extended a key for the client that left it.
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
		text, at = h.silence(o.to, "asks", "has", "returns"), h.asked
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
		told = h.silence(o.to, "asked", "had", "returned")
	}
	b.caption.tellOf(at, who, fmt.Sprintf("%s, called at %s,%s%s", op, display.Seconds(h.Call.T), told, o.bound(o.onlyHung())))
}

// silence says how long an acquire asked no node.
func (h hungCall) silence(to int64, asks, has, returns string) string {
	text := fmt.Sprintf(" %s no node after %s", asks, display.Seconds(h.asked))
	switch {
	case h.again < to:
		return text + " until " + display.Seconds(h.again)
	case h.Ended() > to:
		return text + fmt.Sprintf(" and %s not returned by %s", has, display.Seconds(to))
	}
	return text + " and " + returns + " at " + display.Seconds(h.Ended())
}

// onlyHung reports whether the violation is the call that hung, and not that nobody got the lock.
func (o *outage) onlyHung() bool {
	w := o.harm.Witness
	if len(o.hung) != 1 || len(w.Sessions) != 1 || w.Sessions[0] != o.hung[0].Name() {
		return false
	}
	return o.hung[0].Call.Op != history.OpAcquire || o.granted()
}

// granted reports whether somebody was granted the lock meanwhile.
func (o *outage) granted() bool {
	return slices.ContainsFunc(o.f.sessions, func(s *session) bool {
		return s.Granted() && s.Key() == o.key && o.harm.Witness.From < s.begin && s.begin < o.to
	})
}

// bound tells how long it took and how long it may take.
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

// drawHarm marks the span in which nobody got the lock.
func (b outageDrawing) drawHarm() {
	o := b.outage
	w := o.harm.Witness
	if o.onlyHung() {
		return
	}
	if len(o.more) > 0 {
		b.caption.tell(w.From, o.manyKeys(), "refused later attempts")
	}
	b.sheet.band(w.From, o.to, "nobody gets the lock", fmt.Sprintf("NOBODY %s %s until %s%s", o.verb("s"), short(o.key), display.Seconds(o.to), o.bound(true)), w.Events)
	b.caption.tell(w.From, "nobody", fmt.Sprintf("%s %s %s%s", o.verb("d"), short(o.key), display.FromTo(w.From, o.to), o.bound(true)))
}

// verb is what nobody did in the outage. Who was granted keys that had lapsed by then acquired the lock, and did not hold it.
func (o *outage) verb(ending string) string {
	if o.granted() {
		return map[string]string{"s": "holds", "d": "held"}[ending]
	}
	return map[string]string{"s": "acquires", "d": "acquired"}[ending]
}

// summary is the outage in one sentence; "": the verdict's own says as much.
func (o *outage) summary() string {
	var why string
	switch {
	case len(o.hung) > 0 && o.hung[0].Call.Op == history.OpAcquire:
		why = fmt.Sprintf("%s's acquire%s", short(o.hung[0].Client()), o.hung[0].silence(o.to, "asked", "had", "returned"))
	case len(o.hung) > 0:
		why = fmt.Sprintf("%s's %s had not returned by %s", short(o.hung[0].Client()), o.hung[0].Call.Op, display.Seconds(o.to))
	case len(o.left) > 0 && o.harm.Cause != verdict.NoMajority:
		l := slices.MaxFunc(o.left, func(a, b *leftKeys) int { return cmp.Compare(a.refused, b.refused) })
		if len(o.more) > 0 {
			why = o.manyKeys() + " refused later attempts"
			break
		}
		why = fmt.Sprintf("%s key stayed on %s%s", possessive(l.client), nodeList(staysOn(l.stays)), l.after())
	case o.harm.Cause == verdict.WaitedLong && len(o.wait.nodes) > 0 && !slices.ContainsFunc(o.vain, func(v *futile) bool { return v.longest[0] < v.longest[1] }):
		why = fmt.Sprintf("%s waited for %s %s", short(o.next.Client()), nodeList(o.wait.nodes), display.FromTo(o.wait.from, o.wait.to))
	case len(o.vain) > 0:
		v := o.vain[0]
		why = fmt.Sprintf("%s tried %s in vain, %s", short(v.client), display.Times(v.rounds), v.atMost())
	default:
		return ""
	}
	if o.onlyHung() {
		return why + o.bound(true)
	}
	return fmt.Sprintf("%s, so nobody %s %s %s%s", why, o.verb("d"), short(o.key), display.FromTo(o.harm.Witness.From, o.to), o.bound(true))
}

// manyKeys names all keys that were left, where there are too many to draw.
func (o *outage) manyKeys() string {
	var clients []string
	for _, l := range slices.Concat(o.left, o.more) {
		clients = append(clients, l.client)
	}
	slices.Sort(clients)
	return fmt.Sprintf("keys of %s of %s that were over", display.Plural(len(clients), "attempt"), list(slices.Compact(clients)))
}

// after is what the client that left a key had done before, as the end of a clause.
func (l *leftKeys) after() string {
	switch {
	case l.of == nil || l.session == nil:
		return ""
	case l.first != nil:
		return " after an attempt that it had given up"
	case !l.of.Won:
		return " after an attempt that failed"
	case l.session.FirstRelease() != nil:
		return " after its release"
	case l.session.ended == facts.Died:
		return " after its death"
	case l.session.ended == facts.Lost:
		return " after it was told that it had lost the lock"
	case l.session.ended == facts.Expired:
		return " after its lease had ended"
	}
	return ""
}

// possessive is of whom something is.
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

// stamps is an instant of each, or what else is asked of it.
func stamps[T, V any](all []T, at func(T) V) (out []V) {
	for _, x := range all {
		out = append(out, at(x))
	}
	return out
}

// moment writes when several things happened: "at 1.000 s", or "between 1.000 s and 1.002 s".
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
