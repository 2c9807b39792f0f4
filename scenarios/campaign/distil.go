package campaign

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// mostAnchors is how many triggers are tried for what came at a time.
const mostAnchors = 6

// distil replaces a long plan by what was in force while the harm came about, and lets it come upon
// what its victims did just before. What comes at a time meets what it is to meet by luck, and most
// steps of a long plan do no more than bring the others that luck.
func (x *search) distil() {
	if x.Record == nil || len(x.best.Plan) <= fewSteps || x.over() {
		return
	}
	h, v, err := x.Record(x.ctx, x.best, x.seed)
	if err != nil {
		return // the way without it is longer
	}
	r := v.Result(x.bug.Property)
	if r == nil || r.Witness == nil || len(r.Witness.Sessions) == 0 {
		return
	}
	look := lookAt(h, r.Witness)
	var edits []edit
	for nearest := range mostAnchors {
		plan := look.plan(x.best, nearest)
		edits = append(edits, func(s *scenario.Scenario) bool {
			fewer := len(plan) < len(s.Plan)
			s.Plan = plan
			return fewer
		})
	}
	if x.firstOf(edits, append([]uint64{x.seed}, otherSeeds()...)) >= 0 {
		x.steps()
	}
}

// look is a record, and the span in which the harm came about.
type look struct {
	events   []history.Event
	faults   []*facts.Fault
	from, to int64
	anchored map[*facts.Fault][]nemesis.Trigger // what each may come upon
}

// lookAt is the span from when the earlier session began the attempt by which it got its lock, to the
// harm.
func lookAt(h *history.History, w *verdict.Witness) look {
	l := look{h.Events, facts.Read(h).Faults, w.From, w.From, map[*facts.Fault][]nemesis.Trigger{}}
	token := ""
	for _, e := range h.Events {
		if e.Session == w.Sessions[0] && e.Op == history.OpAcquire && e.Type == history.OK {
			l.from, token = min(l.from, e.T), e.Token
		}
	}
	for _, e := range h.Events {
		if token != "" && e.Token == token && e.Op == history.OpSet && e.Sent > 0 {
			l.from = min(l.from, e.Sent)
		}
	}
	return l
}

// plan is what was in force in the span. What came at a time comes upon the nearest thing before
// it that is to be waited for; or the next but one, and so on.
func (l look) plan(s scenario.Scenario, nearest int) (plan nemesis.Plan) {
	whole := map[int]bool{} // steps that are there as they were
	for _, f := range l.faults {
		if f.Begin == nil || f.Step < 1 || f.Step > len(s.Plan) || f.From() > l.to || whole[f.Step] {
			continue
		}
		st, end := s.Plan[f.Step-1], f.To()
		if kind, _ := nemesis.KindOf(st.Fault.Kind); kind.Loses {
			end = f.From()
		}
		switch {
		case end < l.from:
		case f.From() < l.from && end > l.to: // it is how things are
			whole[f.Step] = true
			plan = append(plan, st)
		default:
			if when, ok := l.trigger(s, st.When, f, nearest); ok {
				plan = append(plan, nemesis.Step{When: when, Fault: l.fault(st.Fault, f, end), Drawn: st.Drawn})
			}
		}
	}
	return plan
}

// fault is a fault as it was on one target: what came again and again is each time one by itself.
func (l look) fault(planned nemesis.Fault, f *facts.Fault, end int64) nemesis.Fault {
	if kind, _ := nemesis.KindOf(planned.Kind); kind.Again {
		planned.Kind, planned.Every, planned.Lasts = kind.As, nemesis.Span{}, nemesis.Span{}
	}
	if lasts := time.Duration(end - max(f.From(), l.from)); end <= l.to && lasts > 0 {
		planned.For, planned.Until, planned.Timer = &lasts, nil, nil
	}
	if len(planned.Targets) > 0 {
		planned.Targets = []string{f.Target}
	}
	return planned
}

// trigger is what a fault comes upon that came in the span.
func (l look) trigger(s scenario.Scenario, w nemesis.Trigger, f *facts.Fault, nearest int) (nemesis.Trigger, bool) {
	switch {
	case w.Message != nil:
		m := *w.Message
		m.Nth = 1
		w.Message = &m
		return w, true
	case w.Point != nil:
		p := *w.Point
		p.Nth = 1
		w.Point = &p
		return w, true
	}
	all, ok := l.anchored[f]
	if !ok {
		all = l.anchors(s, f.Target, max(f.From(), l.from))
		l.anchored[f] = all
	}
	if len(all) == 0 {
		return w, false
	}
	return all[min(nearest, len(all)-1)], true
}

// anchors are triggers of what its victim did in the span before a time, those that are soonest
// before it first; of what all clients did where a node is hit.
func (l look) anchors(s scenario.Scenario, target string, at int64) (all []nemesis.Trigger) {
	type candidate struct {
		at   int64
		when nemesis.Trigger
	}
	var found []candidate
	clients := s.ClientNames()
	if victim, _, _ := nemesis.SplitLink(target); slices.Contains(clients, victim) {
		clients = []string{victim}
	}
	for _, c := range clients {
		for _, name := range nemesis.EventNames() {
			if e, last := l.last(nemesis.Event{Client: c, Event: name}, at); e.Nth > 0 {
				e.After = time.Duration(at - last)
				found = append(found, candidate{last, nemesis.Trigger{Event: &e}})
			}
		}
		for m, last := range l.messages(c, at) {
			found = append(found, candidate{last, nemesis.Trigger{Message: &m}})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.at, a.at), strings.Compare(a.when.String(), b.when.String()))
	})
	for _, c := range found {
		all = append(all, c.when)
	}
	return all
}

// last is how often something was seen of a client in the span before a time, and when it was last.
func (l look) last(e nemesis.Event, before int64) (nemesis.Event, int64) {
	at := int64(0)
	for _, f := range l.events {
		if f.Process == e.Client && f.T >= l.from && f.T <= before && e.Matches(f) { // no fault is seen of itself
			e.Nth++
			at = f.T
		}
	}
	return e, at
}

// messages are the last of each sort that a client and a node sent each other in the span before a
// time, with their numbers, and when that was.
func (l look) messages(client string, before int64) map[nemesis.OnMessage]int64 {
	count, last := map[nemesis.OnMessage]int{}, map[nemesis.OnMessage]int64{}
	for _, e := range l.events {
		if left, _, isLink := nemesis.SplitLink(e.Process); !isLink || left != client || !slices.Contains(nemesis.MessageKinds, e.Op) {
			continue
		}
		for of, t := range map[string]int64{nemesis.Request: e.Sent, nemesis.Reply: e.Applied} {
			if m := (nemesis.OnMessage{Link: e.Process, Message: e.Op, Of: of}); t >= l.from && t <= before {
				count[m]++
				last[m] = max(last[m], t)
			}
		}
	}
	numbered := map[nemesis.OnMessage]int64{}
	for m, t := range last {
		n := count[m]
		m.Nth = n
		numbered[m] = t
	}
	return numbered
}
