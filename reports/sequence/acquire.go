package sequence

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/words"
)

// drawAcquire draws how a session got the lock: what was tried in vain in one
// note, the winning round as a request and its answers.
func (b *builder) drawAcquire(s *session) {
	me, ok := b.lane(s.Client())
	if !ok {
		return
	}
	b.drawFutile(s, me)
	if !s.Granted() {
		return
	}
	won := b.f.winning(s)
	if won == nil {
		won = b.presumed(s)
	}
	b.facts++
	for _, g := range b.byLane(won.sets) {
		a := Arrow{From: me, To: g.lane, Label: "acquire", Sent: g.first(sentAt), Arrived: g.last(appliedAt), Events: numbers(g.events...)}
		a.Lost = a.Arrived == 0
		b.message(a)
	}
	b.drawGrant(s, me, won)
}

// drawFutile folds the rounds that came to nothing.
func (b *builder) drawFutile(s *session, me int) {
	w := b.f.futile(s, b.from)
	if w.rounds == 0 {
		return
	}
	times := words.Plural(w.rounds, "time")
	label := fmt.Sprintf("%s tries %s: %s", short(s.Client()), times, w.because())
	if w.rounds == 1 {
		label = fmt.Sprintf("%s tries once: %s", short(s.Client()), w.because())
	} else if w.to > w.from {
		label += ", until " + words.Seconds(w.to)
	}
	b.note(Note{Lane: me, At: max(w.from, b.from), Mark: Dot, Label: label, Events: numbers(w.events...)})
	if !s.Granted() {
		b.tell(max(w.from, b.from), short(s.Client()), fmt.Sprintf("tried %s in vain from %s to %s (%s)", times, words.Seconds(w.from), words.Seconds(w.to), w.because()))
	}
}

// presumed stands for a round that no link recorded: all nodes, at once.
func (b *builder) presumed(s *session) *attempt {
	c := s.Acquire
	a := &attempt{}
	names := b.nodes()
	if len(names) == 0 {
		names = []string{""}
	}
	for _, n := range names {
		e := *c.Call
		e.Node, e.Sent, e.Type = n, max(c.Call.T, b.from), history.Info
		e.Applied = e.Sent
		a.sets = append(a.sets, &e)
	}
	return a
}

func (b *builder) drawGrant(s *session, me int, won *attempt) {
	ok := s.Acquire.Return
	votes := won.votes(ok.T)
	label := "ok"
	if len(votes) > 0 {
		label = fmt.Sprintf("ok %d/%d", len(votes), max(len(b.nodes()), len(votes)))
	}
	twice := b.twice(s, won, votes)
	detail, bad := b.grantDetail(s, votes, twice)
	b.facts++
	for _, g := range b.byLane(won.sets) {
		yes := slices.DeleteFunc(slices.Clone(g.events), func(e *event) bool { return len(votes) > 0 && !slices.Contains(votes, e.Node) })
		if len(yes) == 0 {
			continue
		}
		g.events = yes
		a := Arrow{From: g.lane, To: me, Answer: true, Label: label, Detail: detail, Bad: bad,
			Sent: min(g.last(appliedAt), ok.T), Arrived: ok.T, Events: numbers(append(yes, ok)...)}
		if len(votes) == 0 { // nobody saw when the nodes answered
			a.Sent = ok.T
		}
		b.message(a)
	}
	text := fmt.Sprintf("acquired %s at %s", short(s.Key()), words.Seconds(ok.T))
	if until := facts.Deadline(ok); until != never {
		text += fmt.Sprintf(" with %s left", words.Span(max(0, minus(until, s.begin))))
	}
	if n := len(votes); n > 0 {
		text += fmt.Sprintf(", by %d of %d votes", n, max(len(b.nodes()), n))
	}
	if q := b.f.Params.Quorum; len(votes) > 0 && len(votes) < q {
		text += fmt.Sprintf(" where %d are a majority", q)
	}
	if twice != "" {
		text += "; " + twice
	}
	b.tell(ok.T, short(s.Client()), text)
	b.drawExpiry(s, won, votes)
}

// grantDetail is the grant in words; it is bad if there was no majority, or if a
// node voted twice.
func (b *builder) grantDetail(s *session, votes []string, twice string) (string, bool) {
	bad := twice != ""
	detail := fmt.Sprintf("%s holds %s", short(s.Client()), short(s.Key()))
	switch until := facts.Deadline(s.Acquire.Return); {
	case until == never:
		detail += ", no deadline"
	case until <= s.begin:
		detail += ", past its deadline already"
	default:
		detail += fmt.Sprintf(" until %s", words.Seconds(until))
	}
	if fence := s.Acquire.Return.Fence; fence != 0 {
		detail += fmt.Sprintf(", fence %d", fence)
	}
	if q := b.f.Params.Quorum; len(votes) > 0 && len(votes) < q {
		detail += fmt.Sprintf("; a majority is %d", q)
		bad = true
	}
	if twice != "" {
		detail += "; " + twice
	}
	return detail, bad
}

// twice names the nodes that had voted for somebody who still believes in it.
func (b *builder) twice(s *session, won *attempt, votes []string) string {
	for _, o := range b.focus {
		first := b.f.winning(o)
		if o == s || first == nil || o.Key() != s.Key() || !o.believes(s.begin) {
			continue
		}
		var both []string
		for _, n := range first.votes(o.begin) {
			if slices.Contains(votes, n) && first.of(n).Applied < won.of(n).Applied {
				both = append(both, n)
			}
		}
		if len(both) > 0 {
			return fmt.Sprintf("%s had voted for %s", nodeRange(both), short(o.Client()))
		}
	}
	return ""
}

// drawExpiry notes that keys end before their holder stops believing in them.
func (b *builder) drawExpiry(s *session, won *attempt, votes []string) {
	for _, g := range b.byLane(won.sets) {
		var at int64
		for _, e := range g.events {
			if slices.Contains(votes, e.Node) && e.TTL > 0 && e.Applied > 0 {
				at = max(at, b.f.expiry(e))
			}
		}
		if at != 0 && at < s.until {
			b.note(Note{Lane: g.lane, At: at, Mark: Cross, Bad: true, Events: numbers(g.events...),
				Label: fmt.Sprintf("%s's key is due to expire on %s, %s before its belief ends", short(s.Client()), b.d.Lanes[g.lane].Name, words.Span(minus(s.until, at)))})
		}
	}
}

// laneEvents are the wire commands to the nodes of one lane.
type laneEvents struct {
	lane   int
	events []*event
}

func (b *builder) byLane(events []*event) []laneEvents {
	var out []laneEvents
	for _, e := range events {
		lane, ok := b.lane(e.Node)
		if !ok {
			lane = slices.IndexFunc(b.d.Lanes, func(l Lane) bool { return l.Role == Locks })
		}
		if lane < 0 {
			continue
		}
		i := slices.IndexFunc(out, func(g laneEvents) bool { return g.lane == lane })
		if i < 0 {
			i = len(out)
			out = append(out, laneEvents{lane: lane})
		}
		out[i].events = append(out[i].events, e)
	}
	slices.SortFunc(out, func(a, c laneEvents) int { return cmp.Compare(a.lane, c.lane) })
	return out
}

func sentAt(e *event) int64    { return e.Sent }
func appliedAt(e *event) int64 { return e.Applied }

// first is the earliest of a stamp that is known.
func (g laneEvents) first(stamp func(*event) int64) int64 {
	t := int64(never)
	for _, e := range g.events {
		if at := stamp(e); at != 0 {
			t = min(t, at)
		}
	}
	if t == never {
		return 0
	}
	return t
}

// last is the latest of a stamp.
func (g laneEvents) last(stamp func(*event) int64) int64 {
	var t int64
	for _, e := range g.events {
		t = max(t, stamp(e))
	}
	return t
}
