package cause

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// The rows of the decision table. Each fills in the cause, its words and the steps.

// tick is how coarsely a node counts: Redis expires keys by whole milliseconds.
const tick = int64(time.Millisecond)

// losing is one common node while its key's end is looked for.
type losing struct {
	*verdict.Loss
	first, second *facts.Session
	vote, other   *facts.Stay
	due           int64 // when the voted key's time was over, by a clock that ran right
}

// until says when a key's time is over.
func until(due int64) string {
	if due == facts.Never {
		return "it is deleted"
	}
	return facts.Seconds(due)
}

// doer is who gave the command of a fact.
func doer(e *history.Event) string {
	switch by := e.Life.By; by {
	case "":
		return "nobody"
	case history.Harness:
		return "lockpick"
	default:
		return facts.LinkClient(by)
	}
}

func command(e *history.Event) string {
	word := "the " + strings.ToUpper(cmp.Or(e.Life.Command, "command"))
	if e.Life.Script {
		word += " in a script"
	}
	return word
}

// shortened finds a key that got less time than its lock's TTL, because a clock is wrong:
// an expiry that is sent as an instant is reckoned by the client's clock and kept by the
// node's. If both are wrong, neither alone is the cause.
func shortened(r *facts.Facts, x losing) bool {
	at := x.vote.Given
	claimed := facts.Deadline(x.first.Acquire.Return)
	if x.first.Extended() || x.due == facts.Never || claimed <= x.due || x.other.Put.T < x.due-tick {
		return false
	}
	short := int64(r.Params.TTL) - given(x.vote)
	node, client := clockError(r, x.Node, at), clockError(r, x.first.Client(), at)
	if short <= tick || node-client < short/2 {
		return false
	}
	wrong := []string{}
	for name, by := range map[string]int64{x.Node: node, x.first.Client(): client} {
		if by > tick || by < -tick {
			wrong = append(wrong, fmt.Sprintf("%s's clock was %s", name, ahead(by)))
			x.Steps = append(x.Steps, turned(r, name, math.MinInt64, at.T)...)
		}
	}
	slices.Sort(wrong)
	slices.Sort(x.Steps)
	x.Fact = 0 // it ended as it was told to
	x.Cause = verdict.ExpiredEarly
	if len(wrong) > 1 {
		x.Cause = verdict.ClocksDisagree
	}
	got := "got " + facts.Seconds(given(x.vote)) + " instead of " + facts.Seconds(int64(r.Params.TTL))
	if given(x.vote) <= 0 {
		got = "was over when it was set"
	}
	x.Text = fmt.Sprintf("%s's key on %s %s, for %s", x.first.Client(), x.Node, got, verdict.List(wrong))
	return true
}

// given is the time that a key got when it last got an expiry. A node counts from the
// whole millisecond that its clock showed.
func given(s *facts.Stay) int64 { return s.Given.Life.Expires - s.Given.Local/tick*tick }

// ahead says how far a clock is from the right one.
func ahead(by int64) string {
	if by < 0 {
		return facts.Seconds(-by) + " behind"
	}
	return facts.Seconds(by) + " ahead"
}

// clockError is how far a node's or a client's wall clock was from the right one at the
// instant of a node's fact; 0 where the record doesn't tell.
func clockError(r *facts.Facts, name string, at *history.Event) int64 {
	if at.Process == name {
		if r.Params.Epoch == 0 {
			return 0
		}
		return at.Local - r.Params.Epoch - at.T
	}
	by := int64(0)
	for _, t := range r.Turns {
		if t.Process == name && t.T <= at.T {
			by = t.Ahead(at.T)
		}
	}
	return by
}

// outlived tells a claim that outlived its key: the node did all that was asked.
func outlived(r *facts.Facts, x losing) {
	x.Fact = 0 // it ended in time
	first := x.first
	lived := given(x.vote)
	key := fmt.Sprintf("%s's key on %s lived its %s, to %s", first.Client(), x.Node, facts.Seconds(lived), facts.Seconds(x.due))
	claimed := facts.Deadline(first.Acquire.Return)
	lost := r.Lost(first)
	switch {
	case lost != nil && lost.T == claimed && lost.T > x.due:
		x.Cause, x.Text = verdict.ToldLate, key+fmt.Sprintf(", and %s was told of its loss at %s", first.Client(), facts.Seconds(lost.T))
		x.Steps = hit(r, first.Client(), x.due, lost.T)
	case clockLost(r, first):
		x.Cause, x.Text = verdict.ClientClock, key+fmt.Sprintf(", but %s's clock fell behind", first.Client())
		x.Steps = turned(r, first.Client(), first.Acquire.Call.T, x.other.Put.T)
	case !first.Extended() && claimed != facts.Never && claimed-first.Acquire.Return.T > lived+tick: // it could not have been in time
		x.Cause, x.Text = verdict.GivenShorter, key+fmt.Sprintf(", but %s claimed the lock until %s", first.Client(), facts.Seconds(claimed))
	case x.second.Acquire.Return.T < first.Acquire.Return.T:
		x.Cause = verdict.GrantedLate
		x.Text = key + fmt.Sprintf(", but its acquire returned only at %s, when %s held the lock", facts.Seconds(first.Acquire.Return.T), x.second.Client())
		x.Steps = hit(r, first.Client(), first.Acquire.Call.T, first.Acquire.Return.T)
	case claimed == facts.Never && !renewed(first):
		x.Cause, x.Text = verdict.ToldLate, key+fmt.Sprintf(", and %s, whose lock names no deadline, was not told", first.Client())
	case saidHeld(first) != nil:
		x.Cause = verdict.ToldLate
		x.Text = key + fmt.Sprintf(", but %s, which asked its lock at %s, was told that it is held", first.Client(), facts.Seconds(saidHeld(first).T))
		x.Steps = hit(r, first.Client(), x.due, saidHeld(first).T)
	case first.Extended():
		x.Cause, x.Text = verdict.GivenShorter, key+fmt.Sprintf(", but %s claimed the lock for longer", first.Client())
	default:
		x.Cause, x.Text = verdict.GivenShorter, key+fmt.Sprintf(", but %s claimed the lock until %s", first.Client(), facts.Seconds(claimed))
	}
}

// saidHeld is the lock's last answer to its holder, once the deadline had passed, that the lock is
// held; nil: it gave none.
func saidHeld(s *facts.Session) (said *history.Event) {
	for x := range s.Extends() {
		if x.Call.Value == history.OpCheck && x.Outcome() == history.OK {
			said = x.Return
		}
	}
	return said
}

// renewed reports whether an acquire was not known to be granted, and an extension named a deadline.
func renewed(s *facts.Session) bool {
	for x := range s.Extends() {
		if x.Outcome() == history.OK && x.Return.ValidUntil != 0 {
			return !s.Granted()
		}
	}
	return false
}

// clockLost reports whether a session's client saw less time pass than there
// did, beyond the bound of its rate and a millisecond of reading it. True time
// is stamped before the own clock is read, so a pause between the two can hide
// a loss but, against the smallest lead so far, not invent one. A turn of the clock
// is a reading too, and tells what it shows from then on; what it was wrong by
// before the acquire is no matter.
func clockLost(r *facts.Facts, s *facts.Session) bool {
	end, _ := r.LastMoment(s)
	for w := range r.Windows(s) {
		end = w.To
	}
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

// deleted tells whose command it was: a release of an earlier attempt of the same client,
// that came late, another session's, one of several of its own, or nobody's of the lock.
func deleted(r *facts.Facts, x losing, end *history.Event) {
	by := end.Life.By
	client := facts.LinkClient(by)
	if by == "" || by == history.Harness || !slices.Contains(r.Params.Clients, client) {
		x.Cause = verdict.DeletedByHarness
		x.Text = fmt.Sprintf("%s deleted %s's key on %s at %s", doer(end), x.first.Client(), x.Node, facts.Seconds(end.T))
		if by != "" && by != history.Harness {
			x.Cause, x.Text = verdict.DeletedByOther, fmt.Sprintf("%s of %s, which is no client of this run, deleted %s's key on %s at %s", command(end), by, x.first.Client(), x.Node, facts.Seconds(end.T))
		}
		return
	}
	x.Cause = verdict.DeletedByOther
	whose := command(end) + " of a failed attempt of " + client
	token := ""
	if d := r.ReleaseOf(end); d != nil {
		x.Events = append(x.Events, d)
		if oneOfSeveral(x.first, client, d) {
			x.Cause = verdict.ReleasedEarly
			x.Text = fmt.Sprintf("%s had acquired it again, and its release of that, sent on %s at %s, deleted its key on %s at %s", client, by, facts.Seconds(end.Sent), x.Node, facts.Seconds(end.T))
			return
		}
		whose, token = "the release of "+releaser(r, x.first, client, d), " without a token"
		if d.Token != "" {
			token = " with token " + d.Token
		}
	}
	x.Text = fmt.Sprintf("%s%s, sent on %s at %s, deleted %s's key on %s at %s", whose, token, by, facts.Seconds(end.Sent), x.first.Client(), x.Node, facts.Seconds(end.T))
	x.Steps = delayed(r, by, end)
}

// oneOfSeveral reports whether a release on the wire was of a lock that its holder had
// acquired again, and so had still.
func oneOfSeveral(s *facts.Session, client string, d *history.Event) bool {
	for x := range s.Extends() {
		if x.Call.Value == history.OpRelease && client == s.Client() && d.Sent >= x.Call.T && d.Sent <= x.Ended() {
			return true
		}
	}
	return false
}

// releaser says whose a release on the wire was.
func releaser(r *facts.Facts, first *facts.Session, client string, d *history.Event) string {
	if client == first.Client() && d.Sent < first.Acquire.Return.T {
		return "an earlier attempt of " + client
	}
	if s := releasing(r, client, d); s != nil {
		return "session " + s.Name()
	}
	return "a failed attempt of " + client
}

// releasing is the session whose release a wire command belongs to.
func releasing(r *facts.Facts, client string, d *history.Event) *facts.Session {
	var last *facts.Session
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

// forgotten tells how a node lost a key that it had, or came back with an older one.
func forgotten(r *facts.Facts, x losing, end *history.Event) {
	f := outage(r, x.Node, end)
	key := x.first.Client() + "'s key"
	if end.Life.What == history.KeyReverted {
		key += ", and had what was there before"
	}
	switch {
	case end.Life.Why == history.Failover:
		x.Cause, x.Text = verdict.FailedOver, fmt.Sprintf("%s failed over to a replica that had not got %s", x.Node, key)
	case f != nil && f.Kind == facts.PowerLoss && r.Params.Persistence != "none":
		x.Cause, x.Text = verdict.LostUnsynced, fmt.Sprintf("%s lost its power, and with it %s, which it had not synced", x.Node, key)
	default:
		x.Cause, x.Text = verdict.RestartedAndForgot, fmt.Sprintf("%s restarted and forgot %s", x.Node, key)
	}
	if f != nil {
		x.Steps = appendStep(x.Steps, f)
		x.Events = append(x.Events, f.Begin, f.End)
	}
}

// early tells a key that the node let expire before its time: by its clock, which must
// have gone forward by as much.
func early(r *facts.Facts, x losing, end *history.Event) {
	from := x.vote.Given
	gain := (end.Local - end.T) - (from.Local - from.T)
	if short := x.due - end.T; gain < short-tick-facts.Error(end)-facts.Error(from) {
		x.Cause = verdict.Unexplained
		x.Text = fmt.Sprintf("%s's key expired on %s at %s, %s before its time, but that node's clock had gained only %s",
			x.first.Client(), x.Node, facts.Seconds(end.T), facts.Seconds(short), facts.Seconds(gain))
		return
	}
	x.Cause = verdict.ExpiredEarly
	x.Text = fmt.Sprintf("%s's clock gained %s, and %s's key was gone there by %s, before its %s were over",
		x.Node, facts.Seconds(gain), x.first.Client(), facts.Seconds(end.T), facts.Seconds(given(x.vote)))
	x.Steps = turned(r, x.Node, from.T, end.T)
	for _, f := range r.Faults {
		if f.Target == x.Node && f.TurnsClock() && f.Begin != nil {
			if _, ok := slices.BinarySearch(x.Steps, f.Step); ok {
				x.Events = append(x.Events, f.Begin)
			}
		}
	}
}
