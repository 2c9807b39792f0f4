// Package cause finds why two sessions could have one lock.
//
// That is not inferred from what clients were answered. The
// nodes tell what became of each key (history.Life): any two quorums share a node, and there
// the key by which the first session was granted had ended when the second was granted.
// For each such node the first row that fits says how (row):
//
//	a session's keys are on fewer nodes than a quorum          never-set
//	it got less time than the TTL, for clocks that disagree    clocks-disagree
//	the second came when its time was over                     told-late, given-shorter, granted-late, client-clock
//	deleted by a client, by a stranger / by lockpick           deleted-by-other / deleted-by-harness
//	by its holder, who had acquired it again                   released-early
//	gone with all others / for want of memory                  flushed / evicted
//	not there, or an older one, after a failover               failed-over
//	likewise after a power loss, on a node that keeps a file   lost-unsynced
//	likewise after any other restart                           restarted-and-forgot
//	expired, and the node's clock had gained that much         expired-early; given-shorter if the lock had to allow for it
//	another value was put over it                              overwritten
//	none of that was told, or it can't be                      unexplained
//
// What befell a key before is no matter where its time would have been over by then: the
// second would have been granted all the same. The rows of all common nodes are the cause
// (Explanation.Losses), each with the fact and the steps of the plan that did it;
// the one that holds on the most nodes gives it its name. A record without the nodes' word
// (Params.Life) is judged all the same, and its overlaps are unexplained.
//
// Deliberately missing: whether two sessions had one lock at all.
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

// explanation is why two sessions could both be granted one lock.
type explanation struct {
	Cause  string
	Node   string
	Text   string
	Losses []verdict.Loss
	Spare  int              // nodes that the second could have done without
	Events []*history.Event // what shows it
}

// strength orders causes that explain as many nodes as each other.
var strength = []string{verdict.RestartedAndForgot, verdict.LostUnsynced, verdict.FailedOver, verdict.DeletedByOther, verdict.ReleasedEarly, verdict.DeletedByHarness,
	verdict.Flushed, verdict.Evicted, verdict.ClientClock, verdict.ToldLate, verdict.GrantedLate, verdict.GivenShorter, verdict.ClocksDisagree, verdict.ExpiredEarly,
	verdict.Overwritten, verdict.Unexplained}

// Explain finds the cause of two sessions' overlap. Any two quorums share a node, so
// either one session had no quorum, or at least one node granted both; there the key that
// was set first was gone before the other's set, and the node has told how.
func Explain(r *facts.Facts, a, b *facts.Session) explanation {
	if !r.Params.Life {
		return untold(r, a, b)
	}
	votes := map[*facts.Session]map[string]*facts.Stay{a: votes(r, a), b: votes(r, b)}
	for _, s := range []*facts.Session{a, b} {
		if n := len(votes[s]); n < r.Params.Quorum {
			return uncounted(r, s, votes[s])
		}
	}
	x := explanation{Spare: len(votes[b]) - r.Params.Quorum}
	for _, name := range r.Params.Nodes {
		va, vb := votes[a][name], votes[b][name]
		switch {
		case va == nil || vb == nil:
		case va.Put.Life.Seq <= vb.Put.Life.Seq:
			x.Losses = append(x.Losses, loss(r, a, b, va, vb))
		default:
			x.Losses = append(x.Losses, loss(r, b, a, vb, va))
			x.Spare = len(votes[a]) - r.Params.Quorum
		}
	}
	if len(x.Losses) == 0 {
		return explanation{Cause: verdict.Unexplained, Text: "no node granted both"}
	}
	return x.headed()
}

// untold is what a record says of an overlap that has no facts of the nodes: nobody knows what
// became of the keys, but when a holder was told of a loss is known.
func untold(r *facts.Facts, both ...*facts.Session) explanation {
	x := explanation{Cause: verdict.Unexplained, Text: "the record has no facts of the nodes"}
	for _, s := range both {
		if lost := r.Lost(s); lost != nil {
			x.Text += fmt.Sprintf(", and %s was told of its loss at %s", s.Client(), facts.Seconds(lost.T))
			x.Events = append(x.Events, lost)
		}
	}
	return x
}

// uncounted tells a session that had too few nodes' keys for a quorum.
func uncounted(r *facts.Facts, s *facts.Session, votes map[string]*facts.Stay) explanation {
	x := explanation{Cause: verdict.NeverSet}
	for _, n := range r.Params.Nodes {
		if v := votes[n]; v != nil {
			x.Events = append(x.Events, v.Put)
		} else if g := r.Lives().Gap(n, s.Acquire.Call.T, s.Acquire.Return.T); g != nil {
			return explanation{Cause: verdict.Unexplained, Node: n, Text: fmt.Sprintf("facts of %s may be missing when %s set its keys", n, s.Client()), Events: []*history.Event{g}}
		}
	}
	x.Text = fmt.Sprintf("%s counted itself in with the votes of %d of %d nodes, and a quorum is %d", s.Client(), len(votes), len(r.Params.Nodes), r.Params.Quorum)
	return x
}

// votes returns, by node, the last key that the session's own link set during its acquire. Extending
// a key that it already had counts as a vote. A lock may use one token for all attempts of an
// acquire, so a key that was gone before the winning attempt began is not a vote.
func votes(r *facts.Facts, s *facts.Session) map[string]*facts.Stay {
	votes := map[string]*facts.Stay{}
	won := int64(math.MinInt64)
	if w := r.Wires()[s.Key()]; w != nil && w.Last[s] != nil && w.Last[s].Won {
		won = w.Last[s].From
	}
	within := func(e *history.Event) bool {
		ε := facts.Error(e)
		return facts.LinkClient(e.Life.By) == s.Client() && e.T >= s.Acquire.Call.T-ε && e.T <= s.Acquire.Return.T+ε
	}
	for _, n := range r.Params.Nodes {
		for _, v := range r.Lives().Stays(n, s.Key()) {
			if v.Holds(s.Token()) && (within(v.Put) || within(v.Given)) && v.To() >= won {
				votes[n] = v
			}
		}
	}
	return votes
}

// headed names the explanation by the cause that holds on the most nodes, told for the
// first of them. All that are named were needed if the second had no vote to spare.
func (x explanation) headed() explanation {
	count := map[string]int{}
	for _, l := range x.Losses {
		count[l.Cause]++
	}
	best := slices.MinFunc(x.Losses, func(a, b verdict.Loss) int {
		return cmp.Or(count[b.Cause]-count[a.Cause], slices.Index(strength, a.Cause)-slices.Index(strength, b.Cause))
	})
	x.Cause, x.Node, x.Text = best.Cause, best.Node, best.Text
	var same []string
	for _, l := range x.Losses {
		x.Events = append(x.Events, l.Events...)
		switch {
		case l.Node == best.Node:
		case l.Cause == best.Cause:
			same = append(same, l.Node)
		}
	}
	if len(same) > 0 {
		x.Text += "; likewise on " + verdict.List(same)
	}
	for _, l := range x.Losses {
		if l.Cause != best.Cause {
			x.Text += "; " + l.Text
		}
	}
	return x
}

// loss is the decision table: how the key by which a node had granted the first session
// was gone when the node granted the second. The first row that fits says it.
func loss(r *facts.Facts, first, second *facts.Session, vote, other *facts.Stay) verdict.Loss {
	for _, next := range r.Lives().Stays(vote.Node, first.Key()) { // its own client has changed it, and it is still the session's
		own := next.Put == vote.End && next.Of(first)
		if own && next.Put.Life.Seq < other.Put.Life.Seq {
			vote = next
		}
	}
	x := losing{&verdict.Loss{Node: vote.Node, First: first.Name(), Second: second.Name()}, first, second, vote, other, vote.Due()}
	x.Events = []*history.Event{vote.Put, other.Put}
	end := vote.End
	if end == nil || end.Life.Seq > other.Put.Life.Seq {
		x.Cause, x.Text = verdict.Unexplained, fmt.Sprintf("%s granted both, and has not told how %s's key ended", x.Node, first.Client())
	} else {
		x.Fact, x.Put = end.N, other.Put.N
		x.Events = append(x.Events, vote.Given, end)
		row(r, x, end)
	}
	if g := r.Lives().Gap(x.Node, vote.Put.T, other.Put.T); g != nil && x.Cause == verdict.Unexplained {
		x.Text += "; facts of that node may be missing"
		x.Events = append(x.Events, g)
	}
	return *x.Loss
}

// row fills in the first row that fits.
func row(r *facts.Facts, x losing, end *history.Event) {
	first, other, what := x.first, x.other, end.Life.What
	switch {
	case shortened(r, x):
	case other.Put.T+facts.Error(other.Put) >= x.due:
		outlived(r, x)
	case what == history.KeyDeleted:
		deleted(r, x, end)
	case what == history.KeyFlushed:
		x.Cause, x.Text = verdict.Flushed, fmt.Sprintf("%s emptied %s at %s, and %s's key went with all others", facts.Doer(end), x.Node, facts.Seconds(end.T), first.Client())
	case what == history.KeyEvicted:
		x.Cause, x.Text = verdict.Evicted, fmt.Sprintf("%s had no memory left, and dropped %s's key at %s", x.Node, first.Client(), facts.Seconds(end.T))
	case what == history.KeyLost, what == history.KeyReverted:
		forgotten(r, x, end)
	case what == history.KeyExpired:
		early(r, x, end)
	case facts.LinkClient(end.Life.By) != "":
		x.Cause = verdict.Overwritten
		x.Text = fmt.Sprintf("%s of %s put another value into %s's key on %s at %s, which had been to live until %s",
			command(end), facts.Doer(end), first.Client(), x.Node, facts.Seconds(end.T), until(x.due))
	default:
		x.Cause, x.Text = verdict.Unexplained, fmt.Sprintf("%s's key on %s is told to be %s at %s", first.Client(), x.Node, what, facts.Seconds(end.T))
	}
}

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

func command(e *history.Event) string {
	word := "the " + strings.ToUpper(cmp.Or(e.Life.Command, "command"))
	if e.Life.Script {
		word += " in a script"
	}
	return word
}

// shortened finds a key that got less time than its lock's TTL because the clocks of its client and its
// node disagree: an expiry that is sent as an instant is reckoned by the one and kept by the other.
// Whether one of them is wrong or both, the lock should not have compared them.
func shortened(r *facts.Facts, x losing) bool {
	at := x.vote.Given
	claimed := facts.Deadline(x.first.Acquire.Return)
	if x.first.Extended() || x.due == facts.Never || claimed <= x.due || x.other.Put.T < x.due-tick {
		return false
	}
	short := int64(r.Params.TTL) - x.vote.Lifetime()
	node, client := clockError(r, x.Node, at), clockError(r, x.first.Client(), at)
	if short <= tick || node-client < short/2 || node-client > 2*short { // else the clocks are not why
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
	x.Cause = verdict.ClocksDisagree
	got := "got " + facts.Seconds(x.vote.Lifetime()) + " instead of " + facts.Seconds(int64(r.Params.TTL))
	if x.vote.Lifetime() <= 0 {
		got = "was over when it was set"
	}
	x.Text = fmt.Sprintf("%s's key on %s %s, for %s", x.first.Client(), x.Node, got, verdict.List(wrong))
	return true
}

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
	return facts.ClockAt(r.TurnsOf(name), at.T).Ahead(at.T)
}

// outlived tells a claim that outlived its key: the node did all that was asked.
func outlived(r *facts.Facts, x losing) {
	x.Fact = 0 // it ended in time
	first := x.first
	lived := x.vote.Lifetime()
	lapse := x.vote.Lapse(r.TurnsOf(x.Node))
	key := fmt.Sprintf("%s's key on %s lived its %s, to %s", first.Client(), x.Node, facts.Seconds(lived), facts.Seconds(lapse))
	if end := x.vote.End; end.Life.What != history.KeyExpired && end.T < lapse-tick {
		key = fmt.Sprintf("%s's key on %s was gone at %s, before its %s were over at %s", first.Client(), x.Node, facts.Seconds(end.T), facts.Seconds(lived), facts.Seconds(lapse))
	}
	claimed := facts.Deadline(first.Acquire.Return)
	lost := r.Lost(first)
	switch {
	case lost != nil && lost.T == claimed && lost.T > x.due:
		x.Cause, x.Text = verdict.ToldLate, key+fmt.Sprintf(", and %s was told of its loss at %s", first.Client(), facts.Seconds(lost.T))
		x.Steps = hit(r, first.Client(), x.due, lost.T)
	case clockLost(r, first) && !within(r, x):
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

// overclaims returns by how much the first claimed its lock for longer than it may, by its own clock: until
// the TTL less the drift is over since its key was given its expiry; and the return by which it did.
func overclaims(r *facts.Facts, x losing) (by *history.Event, over int64) {
	if x.first.Granted() {
		by = x.first.Acquire.Return
	}
	for e := range x.first.Calls(history.OpExtend) {
		if e.Outcome() == history.OK && e.Return.ValidUntil != 0 && e.Return.T < x.other.Put.T {
			by = e.Return
		}
	}
	if by == nil || by.ValidUntil == 0 || r.Params.Drift == 0 {
		return nil, 0
	}
	may := x.vote.Given.T + facts.Error(x.vote.Given) + int64(r.Params.TTL-r.Params.Drift)
	return by, by.T + r.Shown(by, by.ValidUntil) - may - 2*tick
}

// within reports whether the first claimed its lock for too long while its clock lost no more than the drift
// that a lock must allow for.
func within(r *facts.Facts, x losing) bool {
	by, over := overclaims(r, x)
	return over > 0 && by.ValidUntil-by.T-r.Shown(by, by.ValidUntil) <= int64(r.Params.Drift)
}

// saidHeld is the lock's last answer to its holder, once the deadline had passed, that the lock is
// held; nil: it gave none.
func saidHeld(s *facts.Session) (said *history.Event) {
	for x := range s.Calls(history.OpExtend) {
		if x.Call.Value == history.OpCheck && x.Outcome() == history.OK {
			said = x.Return
		}
	}
	return said
}

// renewed reports whether an acquire was not known to be granted, and an extension named a deadline.
func renewed(s *facts.Session) bool {
	for x := range s.Calls(history.OpExtend) {
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
		x.Text = fmt.Sprintf("%s deleted %s's key on %s at %s", facts.Doer(end), x.first.Client(), x.Node, facts.Seconds(end.T))
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
	for x := range s.Calls(history.OpExtend) {
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
		x.Steps = steps(r, func(o *facts.Fault) bool { return o == f })
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
	if by, over := overclaims(r, x); over > 0 && gain <= int64(r.Params.Drift) {
		x.Fact = 0 // a lock must allow for it
		x.Cause = verdict.GivenShorter
		x.Text = fmt.Sprintf("%s's clock gained %s, which is within the drift of %s that a lock must allow for, but %s claimed the lock until %s, %s too long",
			x.Node, facts.Seconds(gain), facts.Seconds(int64(r.Params.Drift)), x.first.Client(), facts.Seconds(facts.Deadline(by)), facts.Seconds(over))
		return
	}
	x.Cause = verdict.ExpiredEarly
	x.Text = fmt.Sprintf("%s's clock gained %s, and %s's key was gone there by %s, before its %s were over",
		x.Node, facts.Seconds(gain), x.first.Client(), facts.Seconds(end.T), facts.Seconds(x.vote.Lifetime()))
	x.Steps = turned(r, x.Node, from.T, end.T)
	for _, f := range r.Faults {
		if f.Target == x.Node && f.TurnsClock() && f.Begin != nil {
			if _, ok := slices.BinarySearch(x.Steps, f.Step); ok {
				x.Events = append(x.Events, f.Begin)
			}
		}
	}
}

// Lost says what became of a session's keys by the time that its client was told, in a call within a span,
// that it did not hold the lock.
func Lost(r *facts.Facts, s *facts.Session, from, to int64) string {
	var of facts.Operation
	for x := range s.Actions() {
		if x.Outcome() == history.Fail && x.Call.T >= from && x.Return.T <= to {
			of = x
			break
		}
	}
	if !r.Params.Life || of.Call == nil || s.Token() == "" {
		return "nothing in the record ended it"
	}
	var order, parts []string
	nodes := map[string][]string{}
	for _, n := range r.Params.Nodes {
		var key *facts.Stay
		for _, y := range r.Lives().Stays(n, s.Key()) {
			if y.Of(s) && y.From() <= of.Return.T {
				key = y
			}
		}
		if key == nil {
			continue
		}
		what := "the key still existed"
		if end := key.End; end != nil && end.T <= of.Return.T {
			what = ended(s, of, key)
		}
		if !slices.Contains(order, what) {
			order = append(order, what)
		}
		nodes[what] = append(nodes[what], n)
	}
	for _, what := range order {
		parts = append(parts, what+" on "+verdict.List(nodes[what]))
	}
	if len(parts) == 0 {
		return "no node had a key of it"
	}
	return strings.Join(parts, "; ")
}

// ended says how a session's key ended before a call was answered.
func ended(s *facts.Session, of facts.Operation, key *facts.Stay) string {
	end := key.End
	client := facts.LinkClient(end.Life.By)
	switch end.Life.What {
	case history.KeyDeleted:
	case history.KeyExpired:
		if end.T < key.Due()-tick {
			return "the key expired early"
		}
		return "the key had expired"
	case history.KeyFlushed:
		return "the key was flushed with all others"
	case history.KeyEvicted:
		return "the key was evicted"
	case history.KeyLost, history.KeyReverted:
		return "the key was lost in a " + cmp.Or(end.Life.Why, history.Restart)
	default:
		return facts.Doer(end) + " put another value over the key"
	}
	if client != s.Client() {
		return facts.Doer(end) + " deleted the key"
	}
	for x := range s.Actions() {
		switch {
		case end.Sent < x.Call.T || end.Sent > x.Ended() || end.Sent == 0:
		case x.Call.Op == history.OpRelease:
			return "its own release, called at " + facts.Seconds(x.Call.T) + ", deleted the key"
		case x == of:
			return "the extension itself deleted the key"
		case x.Call.Op == history.OpExtend:
			return "its extension, called at " + facts.Seconds(x.Call.T) + ", deleted the key"
		}
	}
	return "a late release of " + client + ", sent at " + facts.Seconds(end.Sent) + ", deleted the key"
}

// Which steps of the plan did what a fact tells. An unplanned fault has no step, but is
// told all the same, as history.Unplanned.

// inForce reports whether a fault may have been in force in a span of time.
func inForce(f *facts.Fault, from, to int64) bool {
	return f.Begin != nil && f.First().T <= to && (f.End == nil || f.End.T >= from)
}

// steps is the steps of the faults that did it, in their order.
func steps(r *facts.Facts, did func(*facts.Fault) bool) (all []int) {
	for _, f := range r.Faults {
		if f.Step != 0 && did(f) {
			all = append(all, f.Step)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// turned is the steps by which the clock of a node or a client went wrong, or right again, in
// a span. One that sets a clock does so when it begins, and undoes it when it ends.
func turned(r *facts.Facts, name string, from, to int64) []int {
	return steps(r, func(f *facts.Fault) bool {
		if f.Target != name || !f.TurnsClock() || !inForce(f, from, to) {
			return false
		}
		begins, ends := f.Begin.T >= from, f.End != nil && f.End.T <= to
		return f.Kind != facts.ClockJump || begins || ends
	})
}

// hit is the steps that kept a client from going on in a span of time, or its messages.
func hit(r *facts.Facts, client string, from, to int64) []int {
	return steps(r, func(f *facts.Fault) bool { return f.Hits(client) && inForce(f, from, to) })
}

// delayed is the steps that hit a link, or an end of it, while a command was on its way.
func delayed(r *facts.Facts, link string, e *history.Event) []int {
	return steps(r, func(f *facts.Fault) bool {
		return (f.Target == link || f.Target == facts.LinkClient(link) || f.Target == e.Process) && e.Sent != 0 && inForce(f, e.Sent, e.T)
	})
}

// outage is the fault that ended a node's life before a fact which tells what came of it:
// the last that had begun by then, and could.
func outage(r *facts.Facts, node string, e *history.Event) *facts.Fault {
	var last *facts.Fault
	for _, f := range r.Faults {
		switch f.Kind {
		case facts.Kill, facts.Shutdown, facts.PowerLoss, facts.Failover:
			if f.Target == node && f.Begin != nil && f.First().T <= e.T && (f.Kind == facts.Failover) == (e.Life.Why == history.Failover) {
				last = f
			}
		}
	}
	return last
}
