package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/words"
)

// Of draws up the part of a run that matters: of the violation r, from the
// earlier session's acquire to the end of the harm; where r is nil or has no
// witness, of the sessions that the first fault touched. It takes any history.
func Of(h *history.History, r *checker.Result) Diagram {
	b := &builder{f: newCourse(h), result: r, laneOf: map[string]int{}, storage: -1}
	b.focus = b.f.focus(r)
	b.deletions = b.f.deletions(b.focus)
	b.extra = b.deleters()
	b.cut()
	b.makeLanes()
	for _, s := range b.focus {
		b.drawAcquire(s)
		b.drawWork(s)
		b.drawLease(s)
	}
	for _, s := range b.extra {
		b.drawAcquire(s)
		b.drawLease(s)
	}
	b.drawDeletions()
	b.drawFaults()
	b.drawLosses()
	b.drawOverlap()
	b.d.Title = b.title()
	b.d.Caption = b.caption()
	b.d.Omitted = b.omitted()
	b.d.Stop = b.f.stopped()
	return b.d
}

// builder is a diagram in the making.
type builder struct {
	f         *course
	result    *checker.Result // nil: nothing is violated
	focus     []*session
	deletions []deletion
	extra     []*session     // whose releases deleted a key of the focus
	faults    []*facts.Fault // those that touch what is shown
	from, to  int64          // the span that is shown

	laneOf  map[string]int // process: lane
	storage int            // lane of the storage, -1: none
	folded  int            // faults that are not drawn
	facts   int            // arrows' facts so far
	story   []sentence
	d       Diagram
}

func (b *builder) violated() bool { return b.result != nil && b.result.Outcome == checker.Violated }

// lane is the lane of a process; false: it has none.
func (b *builder) lane(process string) (int, bool) {
	i, ok := b.laneOf[process]
	return i, ok
}

// shown reports whether an instant lies in the span that is drawn.
func (b *builder) shown(t int64) bool { return b.from <= t && t <= b.to }

// How many faults a reader can follow, and how many single targets they may have.
const (
	mostFaults  = 12
	mostTargets = 60
)

// cut settles the span.
func (b *builder) cut() {
	b.from, b.to = never, 0
	for _, s := range b.focus {
		b.from = min(b.from, b.start(s))
		b.to = max(b.to, b.end(s))
	}
	for _, d := range b.deletions {
		b.from = min(b.from, d.release.Sent)
	}
	for _, s := range b.extra {
		b.from = min(b.from, b.start(s))
	}
	if b.result != nil && b.result.Witness != nil {
		b.to = max(b.to, min(b.result.Witness.To, b.f.last))
	}
	b.from = min(b.from, b.to)
	from := b.from
	for _, ft := range b.f.faults {
		if !b.touches(ft) || ft.From() > b.to || ft.To() < from {
			continue
		}
		if len(b.faults) == mostTargets {
			b.folded++
			continue
		}
		b.faults = append(b.faults, ft)
		b.from = min(b.from, ft.From())
	}
}

// start is when the winning round of a session began.
func (b *builder) start(s *session) int64 {
	if w := b.f.winning(s); w != nil {
		return w.sent()
	}
	return s.Acquire.Call.T
}

// deleters are the sessions beside the focus whose clients' releases took a key away.
func (b *builder) deleters() []*session {
	var out []*session
	for _, d := range b.deletions {
		client := facts.Sender(d.release)
		if slices.ContainsFunc(slices.Concat(b.focus, out), func(s *session) bool { return s.Client() == client }) {
			continue
		}
		for _, s := range slices.Backward(b.f.sessions) {
			if s.Client() == client && s.Granted() && s.begin <= d.release.Sent {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

// end is when a session's part of the story is over: where there was harm, once
// its writes were applied; else when it had done all it did.
func (b *builder) end(s *session) int64 {
	if !b.violated() {
		return s.last()
	}
	t := min(s.Acquire.Ended(), b.f.last)
	for _, c := range s.calls {
		if c.Call.Op == history.OpWrite {
			t = max(t, c.Call.T, min(b.f.appliedAt(c.Call.Value), b.f.last))
		}
	}
	return t
}

// touches reports whether a fault has to do with what is shown: a client of it, a
// link of such a client, or a node.
func (b *builder) touches(ft *facts.Fault) bool {
	for _, s := range b.focus {
		if ft.Target == s.Client() || onLinkOf(ft.Target, s.Client()) {
			return true
		}
	}
	for _, d := range b.deletions {
		if c := facts.Sender(d.release); ft.Target == c || onLinkOf(ft.Target, c) {
			return true
		}
	}
	return slices.Contains(b.f.Params.Nodes, ft.Target) || ft.Target == b.f.Params.Resource && ft.Target != ""
}

// slow is how long a message is in flight if it is worth telling.
func (b *builder) slow() int64 {
	return int64(cmp.Or(max(b.f.Params.NodeTimeout, 0), 50*time.Millisecond))
}

// message adds an arrow of the latest fact.
func (b *builder) message(a Arrow) {
	a.Fact = b.facts
	if a.Lost {
		a.Arrived = a.Sent
	}
	a.Arrived = max(a.Arrived, a.Sent)
	a.Slow = minus(a.Arrived, a.Sent) > b.slow()
	b.d.Arrows = append(b.d.Arrows, a)
}

func (b *builder) note(n Note) {
	if b.shown(n.At) {
		b.d.Notes = append(b.d.Notes, n)
	}
}

func (b *builder) bar(lane int, state State, from, to int64, events ...*event) {
	from, to = max(from, b.from), min(to, plus(b.to, 1))
	if from < to {
		b.d.Bars = append(b.d.Bars, Bar{Lane: lane, State: state, From: from, To: to, Events: numbers(events...)})
	}
}

// nothingShown ends the title of a diagram that is about no violation.
const nothingShown = "no violation shown"

func (b *builder) title() string {
	p := b.f.Params
	name := cmp.Or(p.Scenario, "run")
	if p.Variant != "" {
		name += "/" + p.Variant
	}
	if p.Backend != "" {
		name += fmt.Sprintf(" on %s, seed %d", p.Backend, p.Seed)
	}
	if !b.violated() {
		return name + ": " + nothingShown
	}
	what := b.result.Property + " violated"
	if cause := b.result.Cause; cause != "" {
		if b.result.Node != "" {
			cause += ", " + b.result.Node
		}
		what += " (" + cause + ")"
	}
	return name + ": " + what
}

// omitted says what happened in the span and is not drawn.
func (b *builder) omitted() string {
	var clients []string
	n := 0
	for _, s := range b.f.sessions {
		if s.Granted() && !slices.Contains(b.focus, s) && !slices.Contains(b.extra, s) && s.begin <= b.to && s.last() >= b.from {
			n++
			clients = append(clients, s.Client())
		}
	}
	if n == 0 && b.folded > 0 {
		return fmt.Sprintf("Not shown: %s.", words.Plural(b.folded, "other fault"))
	}
	if n == 0 {
		return ""
	}
	slices.Sort(clients)
	clients = unique(clients)
	if len(clients) > 5 {
		clients = append(clients[:4], fmt.Sprintf("%d others", len(clients)-4))
	}
	text := fmt.Sprintf("Not shown: %s of %s", words.Plural(n, "other session"), list(clients))
	if b.folded > 0 {
		text += ", " + words.Plural(b.folded, "other fault")
	}
	return text + "."
}
