package checker

import (
	"fmt"

	"lockpick/harness/history"
)

// deadlockFreedom asks whether a lock whose holder died was free again in time.
// It is put to the test by a client that is killed while it holds a lock, or may
// hold it, and another that is trying to acquire. That one must have the lock,
// or somebody else must, by
//
//	last key set for the dead + TTL·(1+ρ)        the lock is free (or when the other called, if later)
//	+ RetryMax + 2·NodeTimeout, for each waiter  a round of attempts, and what a split vote may cost
//	+ Slack
//
// A death is left out if another fault was in force meanwhile: then nothing was promised.
func deadlockFreedom(r *record) Result {
	if missing := r.missingFigure(); missing != "" {
		return Result{Outcome: Undecided, Because: "the history has no " + missing + ", so there is no bound"}
	}
	judged, leftOut := 0, 0
	var violated, open *Result
	incidents := 0
	for _, d := range r.deaths() {
		if len(d.waiters) == 0 {
			continue
		}
		res, disturbed := r.handover(d)
		if disturbed {
			leftOut++
		}
		if res.Outcome == "" {
			continue
		}
		judged++
		switch {
		case res.Outcome == Violated:
			incidents++
			if violated == nil {
				violated = &res
			}
		case res.Outcome == Undecided && open == nil:
			open = &res
		}
	}
	switch {
	case violated != nil:
		violated.Occasions, violated.Incidents = judged, incidents
		return *violated
	case open != nil:
		open.Occasions = judged
		return *open
	}
	return Result{Outcome: Holds, Occasions: judged, Because: inTime(judged, leftOut)}
}

func inTime(judged, leftOut int) string {
	text := "no client died while it held, or might hold, a lock that another wanted"
	switch {
	case judged > 0:
		text = fmt.Sprintf("the lock was free again in time, in %s of a holder", plural(judged, "death"))
	case leftOut > 0:
		text = "no death of a holder could be judged"
	}
	if leftOut > 0 {
		text += fmt.Sprintf("; left out for other faults in force: %d", leftOut)
	}
	return text
}

// death is the kill of a client that held a lock, or may have held it.
type death struct {
	fault   *fault
	session *session
	at      int64 // the last instant at which it may have lived
	free    int64 // the latest instant at which its keys are gone
	lastSet *history.Event
	waiters []*session // other clients' acquires that outlived it
}

func (r *record) deaths() []death {
	var all []death
	for _, f := range r.faults {
		if f.kind != killed || f.begin == nil {
			continue
		}
		s := r.lastSession(f.target, f.begin.T)
		if s == nil || s.over(f.begin.T) {
			continue
		}
		d := death{fault: f, session: s, at: f.begin.T}
		r.reckon(&d)
		if d.free <= f.first().T {
			continue // its lease was over before it died
		}
		for w := range r.sessions.all() {
			if w.client() != s.client() && w.key() == s.key() && w.acquire.returned() > d.at {
				d.waiters = append(d.waiters, w)
			}
		}
		all = append(all, d)
	}
	return all
}

// lastSession is the last that a client began before an instant.
func (r *record) lastSession(client string, at int64) *session {
	var last *session
	for s := range r.sessions.all() {
		if s.client() == client && s.acquire.call.T <= at {
			last = s
		}
	}
	return last
}

// over reports whether a session surely held nothing any more.
func (s *session) over(at int64) bool {
	if s.acquire.outcome() == history.Fail {
		return true
	}
	for x := range s.releases() {
		if x.outcome() != history.Info && x.ret.T <= at {
			return true
		}
	}
	return false
}

// reckon finds the latest instant at which the dead session's keys are gone: a
// TTL after the last that a node set or extended for it, or, if that isn't
// known, after its death.
func (r *record) reckon(d *death) {
	from := int64(0)
	for i := range r.events {
		e := &r.events[i]
		sets := (e.Op == history.OpSet || e.Op == history.OpExtend) && e.Type == history.OK
		if !sets || e.Key != d.session.key() || linkClient(e.Process) != d.session.client() || e.Process == d.session.client() {
			continue
		}
		if e.Sent >= d.session.acquire.call.T && e.Applied > from {
			from, d.lastSet = e.Applied, e
		}
	}
	if d.lastSet == nil {
		from = d.at
	}
	d.free = from + int64(float64(r.params.TTL)*(1+r.params.Rate))
}

// handover judges one death. The result has no outcome if the death was no
// test: other faults disturbed it, or nobody waited long enough.
func (r *record) handover(d death) (res Result, disturbed bool) {
	round := int64(r.params.RetryMax + 2*r.params.NodeTimeout)
	patience := round*int64(len(d.rivals())) + int64(r.params.Slack)
	next := d.nextGrant()
	for _, w := range d.waiters {
		bound := max(d.free, w.acquire.call.T) + patience
		left, gone := r.gone[w.client()]
		switch {
		case r.disturbed(d, bound):
			return Result{}, true
		case next != nil && next.acquire.ret.T <= bound:
			return Result{Outcome: Holds}, false
		case w.acquire.returned() <= bound, gone && left <= bound:
			continue // it gave up
		case r.end < bound:
			res = Result{Outcome: Undecided, Because: fmt.Sprintf(
				"%s was killed at %s while it may have held %s; the lock must be free again by %s, and the record ends at %s",
				d.session.client(), seconds(d.at), lockName(d.session.key()), seconds(bound), seconds(r.end))}
		default:
			return r.late(d, w, next, bound), false
		}
	}
	return res, false
}

// rivals is the clients that wait, each once.
func (d death) rivals() map[string]bool {
	clients := map[string]bool{}
	for _, w := range d.waiters {
		clients[w.client()] = true
	}
	return clients
}

// nextGrant is the first session of another client that got the lock after a death.
func (d death) nextGrant() *session {
	var next *session
	for _, w := range d.waiters {
		if w.granted() && (next == nil || w.acquire.ret.T < next.acquire.ret.T) {
			next = w
		}
	}
	return next
}

// disturbed reports whether a fault on anybody else was in force between a death
// and an instant. An end is stamped before it begins, and may take a moment: a
// node has to start.
func (r *record) disturbed(d death, until int64) bool {
	for _, f := range r.faults {
		own := f.target == d.session.client() || linkClient(f.target) == d.session.client()
		if own || f.first().T >= until {
			continue
		}
		if f.end == nil || f.end.T+int64(r.params.Slack) > d.at {
			return true
		}
	}
	return false
}

func (r *record) late(d death, w, next *session, bound int64) Result {
	to := r.end
	text := fmt.Sprintf("had not been granted again by %s, when the record ends", seconds(r.end))
	events := []*history.Event{d.session.acquire.call, d.session.acquire.ret, d.lastSet, d.fault.begin, w.acquire.call, w.acquire.ret}
	if next != nil {
		to = next.acquire.ret.T
		text = fmt.Sprintf("was granted again only at %s, to %s", seconds(to), next.client())
		events = append(events, next.acquire.ret)
	}
	return Result{
		Outcome: Violated,
		Because: fmt.Sprintf("%s was killed at %s while it may have held %s, and %s was waiting; the lock must be free again by %s, and %s",
			d.session.client(), seconds(d.at), lockName(d.session.key()), w.client(), seconds(bound), text),
		Witness: &Witness{
			Events: numbered(events), Sessions: []string{d.session.name(), w.name()},
			Key: d.session.key(), From: d.at, To: to,
		},
	}
}

// missingFigure names a figure that the bound needs and the history lacks.
func (r *record) missingFigure() string {
	switch {
	case r.params.TTL == 0:
		return "TTL"
	case r.params.NodeTimeout == 0:
		return "node time-out"
	case r.params.RetryMax == 0:
		return "retry delay"
	}
	return ""
}
