package checker

import (
	"fmt"
	"slices"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// explanation is why two sessions could both be granted one lock.
type explanation struct {
	cause  string
	node   string
	text   string
	events []*history.Event // what shows it
}

// tick is how coarsely a node counts: Redis expires keys by whole milliseconds.
const tick = int64(time.Millisecond)

// strength orders causes that explain as many nodes as each other: facts that
// were seen go before what is inferred from their absence.
var strength = []string{RestartedAndForgot, LostUnsynced, FailedOver, DeletedByOther, ClientClock, GrantedLate, GivenShorter, ExpiredEarly, Overwritten, Unexplained}

// explain finds the cause of two sessions' overlap. Any two quorums share a
// node, so either one session had no quorum, or at least one node granted both;
// there the key that was set first must have vanished before the other's set.
func (r *record) explain(a, b *session) explanation {
	nodes := r.timelines(a.Key())
	votes := map[*session]map[string]*history.Event{a: r.votes(a, nodes), b: r.votes(b, nodes)}
	if len(votes[a])+len(votes[b]) == 0 {
		return explanation{cause: Unexplained, text: "the record has no votes of the nodes for either"}
	}
	quorum := r.Params.Quorum
	for _, s := range []*session{a, b} {
		if n := len(votes[s]); n < quorum {
			return explanation{
				cause: NeverSet, events: votesOf(r.Params.Nodes, votes[s]),
				text: fmt.Sprintf("%s counted itself in with the votes of %d of %d nodes, and a quorum is %d", s.Client(), n, len(nodes), quorum),
			}
		}
	}
	var found []explanation
	for _, name := range r.Params.Nodes {
		va, vb := votes[a][name], votes[b][name]
		switch {
		case va == nil || vb == nil:
		case va.Applied <= vb.Applied:
			found = append(found, r.vanished(nodes[name], a, b, va, vb))
		default:
			found = append(found, r.vanished(nodes[name], b, a, vb, va))
		}
	}
	if len(found) == 0 {
		return explanation{cause: Unexplained, text: "no node granted both"}
	}
	return commonest(found)
}

// commonest is the cause that holds on the most nodes, told for the first of them.
func commonest(found []explanation) explanation {
	count := map[string]int{}
	for _, f := range found {
		count[f.cause]++
	}
	best := slices.MinFunc(found, func(x, y explanation) int {
		if d := count[y.cause] - count[x.cause]; d != 0 {
			return d
		}
		return slices.Index(strength, x.cause) - slices.Index(strength, y.cause)
	})
	var others []string
	for _, f := range found {
		if f.cause == best.cause && f.node != best.node {
			others = append(others, f.node)
		}
	}
	if len(others) > 0 {
		best.text += "; likewise on " + list(others)
	}
	return best
}

// vanished says how the key by which a node had granted the first session was
// gone when the node granted the second.
func (r *record) vanished(t *timeline, first, second *session, vote, other *history.Event) explanation {
	next := t.successor(vote)
	if next == nil {
		next = other
	}
	x := explanation{node: t.node, events: []*history.Event{vote, next, other}}
	from, to := t.life(vote, next, int64(r.Params.TTL))
	lived := next.Applied >= to-tick-2*int64(r.Params.StampError)

	if d := deletion(t.releases, vote, next); d != nil {
		return r.deleted(x, first, d)
	}
	if to == from {
		x.cause, x.text = Unexplained, fmt.Sprintf("%s granted both, and the record doesn't say how long its keys live", t.node)
		return x
	}
	if lived {
		return r.outlived(x, first, second, from, to)
	}
	if f := t.loss(vote, next); f != nil {
		return x.forgotten(first, f)
	}
	if d := deletion(t.silent, vote, next); d != nil {
		return r.deleted(x, first, d)
	}
	return r.early(x, first, next, t.clocks, from, to)
}

// forgotten tells how a node lost a key that it had.
func (x explanation) forgotten(first *session, f *fault) explanation {
	switch f.Kind {
	case powerLost:
		x.cause, x.text = LostUnsynced, fmt.Sprintf("%s lost its power, and with it %s's key, which it had not synced", x.node, first.Client())
	case failedOver:
		x.cause, x.text = FailedOver, fmt.Sprintf("%s failed over to a replica that had not got %s's key", x.node, first.Client())
	default:
		x.cause, x.text = RestartedAndForgot, fmt.Sprintf("%s restarted and forgot %s's key", x.node, first.Client())
	}
	x.events = append(x.events, f.Begin, f.End)
	return x
}

// deleted tells whose release it was: an earlier attempt's of the same client,
// that came late, or another session's.
func (r *record) deleted(x explanation, first *session, d *history.Event) explanation {
	client := facts.LinkClient(d.Process)
	whose := "a failed attempt of " + client
	if client == first.Client() && d.Sent < first.Acquire.Return.T {
		whose = "an earlier attempt of " + client
	} else if s := r.releasing(client, d); s != nil {
		whose = "session " + s.Name()
	}
	with := "with token " + d.Token
	if d.Token == "" {
		with = "without a token"
	}
	x.cause = DeletedByOther
	x.text = fmt.Sprintf("the release of %s %s, sent on %s at %s, deleted %s's key on %s",
		whose, with, d.Process, seconds(d.Sent), first.Client(), x.node)
	if d.Applied > 0 {
		x.text += " at " + seconds(d.Applied)
	}
	x.events = append(x.events, d)
	return x
}

// releasing is the session whose release a wire command belongs to.
func (r *record) releasing(client string, d *history.Event) *session {
	var last *session
	for s := range r.Sessions() {
		if s.Client() != client || s.Key() != d.Key {
			continue
		}
		if call := s.FirstRelease(); call != nil && call.T <= d.Sent {
			last = s
		}
	}
	return last
}

// outlived tells a claim that outlived its key: the node did all that was asked.
func (r *record) outlived(x explanation, first, second *session, from, to int64) explanation {
	key := fmt.Sprintf("%s's key on %s lived its %s, to %s", first.Client(), x.node, seconds(to-from), seconds(to))
	switch claimed := facts.Deadline(first.Acquire.Return, never); {
	case r.clockLost(first):
		x.cause, x.text = ClientClock, key+fmt.Sprintf(", but %s's clock fell behind", first.Client())
	case !first.Extended() && claimed != never && claimed-first.Acquire.Return.T > to-from+tick: // it could not have been in time
		x.cause, x.text = GivenShorter, key+fmt.Sprintf(", but %s claimed the lock until %s", first.Client(), seconds(claimed))
	case second.Acquire.Return.T < first.Acquire.Return.T:
		x.cause = GrantedLate
		x.text = key + fmt.Sprintf(", but its acquire returned only at %s, when %s held the lock", seconds(first.Acquire.Return.T), second.Client())
	case first.Extended() || claimed == never:
		x.cause, x.text = GivenShorter, key+fmt.Sprintf(", but %s claimed the lock for longer", first.Client())
	default:
		x.cause, x.text = GivenShorter, key+fmt.Sprintf(", but %s claimed the lock until %s", first.Client(), seconds(claimed))
	}
	return x
}

// clockLost reports whether a session's client saw less time pass than there
// did, beyond the bound of its rate and a millisecond of reading it. True time
// is stamped before the own clock is read, so a pause between the two can hide
// a loss but, against the smallest lead so far, not invent one. A turn of the clock
// is a reading too, and tells what it shows from then on; what it was wrong by
// before the acquire is no matter.
func (r *record) clockLost(s *session) bool {
	end, _ := r.LastMoment(s)
	end = min(end, facts.Deadline(s.Acquire.Return, never))
	var base, turn *history.Event
	lost := func(at, shows int64) bool {
		return base != nil && at >= s.Acquire.Call.T &&
			(base.Local-base.T)-(shows-at) > int64(r.Params.Rate*float64(at-base.T))+tick
	}
	for i := range r.Events {
		e := &r.Events[i]
		turned := e.Op == history.OpClock && e.Node == s.Client()
		if e.Process != s.Client() && !turned || e.Local == 0 || e.T > end || e.Wall != s.Acquire.Return.Wall {
			continue
		}
		if turned {
			turn = e
		}
		if turned && e.T < s.Acquire.Call.T {
			base = nil
		}
		if lost(e.T, e.Local) {
			return true
		}
		if base == nil || e.Local-e.T < base.Local-base.T {
			base = e
		}
	}
	return turn != nil && lost(end, turn.Local+end-turn.T+int64(float64(end-turn.T)*(float64(turn.Drift)/1e9)))
}

// early tells a key that vanished before its time though nobody deleted it. The
// node's clock ran ahead if faults made it, by as much as the key was short, or if the lock asks nodes for keys
// that are free only, which shows in sets that were refused; otherwise the key
// was overwritten.
func (r *record) early(x explanation, first *session, next *history.Event, clocks []*fault, from, to int64) explanation {
	short := to - next.Applied - tick
	for _, f := range clocks {
		// It was in force when it was read back, and may have been since it was ordered.
		if f.First().T < next.Applied && r.mayGain(clocks, next.Applied, short) {
			x.cause = ExpiredEarly
			x.text = fmt.Sprintf("%s's clock was wrong (%s), and %s's key was gone there by %s, before its %s were over",
				x.node, f.Begin.Cause, first.Client(), seconds(next.Applied), seconds(to-from))
			x.events = append(x.events, f.Begin)
			return x
		}
	}
	if r.refused(first.Key()) {
		x.cause = ExpiredEarly
		x.text = fmt.Sprintf("%s's key vanished from %s by %s, before its %s were over", first.Client(), x.node, seconds(next.Applied), seconds(to-from))
		return x
	}
	x.cause = Overwritten
	x.text = fmt.Sprintf("%s took %s's set at %s while %s's key was alive there until %s",
		x.node, facts.LinkClient(next.Process), seconds(next.Applied), first.Client(), seconds(to))
	return x
}

// mayGain reports whether wrong clocks may together have gone forward by an instant as
// far as a key vanished too soon. What a step sets a clock by it says, and what is set
// back goes forward when the fault ends; what runs fast may gain anything.
func (r *record) mayGain(clocks []*fault, by, short int64) bool {
	gained := int64(0)
	for _, f := range clocks {
		if f.First().T >= by {
			continue
		}
		i := f.Step - 1
		if f.Kind != clockJump && f.Kind != clockSlew || i < 0 || i >= len(r.Params.Steps) || r.Params.Steps[i].By == 0 {
			return true
		}
		gained += int64(r.Params.Steps[i].By.Abs())
	}
	return gained >= short
}

// refused reports whether a node ever refused to set a key because there was one.
func (r *record) refused(key string) bool {
	return slices.ContainsFunc(r.Links, func(e *history.Event) bool {
		return e.Op == history.OpSet && e.Type == history.Fail && e.Key == key && e.Cause == ""
	})
}

func votesOf(nodes []string, votes map[string]*history.Event) []*history.Event {
	var events []*history.Event
	for _, n := range nodes {
		if v := votes[n]; v != nil {
			events = append(events, v)
		}
	}
	return events
}
