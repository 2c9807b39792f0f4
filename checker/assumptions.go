package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// vacuous says what was to happen in the run and didn't, or "". A run that
// shows nothing must not pass.
func vacuous(r *facts.Facts) string {
	if len(r.Lacks) > 0 { // whatever came of it, Redis would have answered otherwise
		return fmt.Sprintf("the simulated %s does not know %s; run it on process", r.Lacks[0].Node, r.Lacks[0].Value)
	}
	for _, c := range r.Params.Clients {
		if !r.Began[c] {
			return c + " never began"
		}
	}
	u := newUsage(r)
	for _, s := range r.Params.Steps {
		if why := missed(u, s); why != "" {
			return fmt.Sprintf("step %d (%s) %s", s.Step, describe(s), why)
		}
	}
	if !r.Params.MayBeIdle && r.Grants == 0 {
		return "nobody acquired a lock"
	}
	return ""
}

// missed says how a planned step did not come into force on all its targets, or "".
func missed(r *usage, s history.PlannedStep) string {
	var begun []string
	tried, met, vain := false, s.Optional, ""
	for _, f := range r.steps[s.Step] {
		tried = true
		if f.Fail != nil {
			return fmt.Sprintf("failed on %s: %s", f.Target, f.Fail.Cause)
		}
		if f.Begin != nil {
			begun = append(begun, f.Target)
			if !met {
				why := faultInVain(r, s, f)
				met, vain = why == "", cmp.Or(vain, why)
			}
		}
	}
	switch {
	case !tried && s.Optional:
		return ""
	case !tried:
		return "never came: its trigger was not seen"
	case len(begun) == 0:
		return "was not seen to be in force"
	}
	covered := covers(s.Targets, begun)
	for _, t := range s.Targets {
		if !covered[t] {
			return "was not seen to be in force on " + t
		}
	}
	if !met {
		return "hit nothing: " + vain
	}
	return ""
}

// covers finds the planned targets that were hit, or one of whose links was. A target that
// only the run can name, such as the holder, is anybody.
func covers(targets, begun []string) map[string]bool {
	covered := map[string]bool{"holder": true}
	long := map[int]bool{} // how long the names of targets are
	for _, t := range targets {
		long[len(t)] = true
	}
	add := func(name string) {
		if long[len(name)] {
			covered[name] = true
		}
	}
	for _, hit := range begun {
		add(hit)
		for i := range len(hit) {
			if hit[i] == '-' {
				add(hit[:i])
				add(hit[i+1:])
			}
		}
	}
	return covered
}

func describe(s history.PlannedStep) string {
	text := s.Fault
	if len(s.Targets) > 0 {
		text += " " + strings.Join(s.Targets, ", ")
	}
	if s.When != "" {
		text += ", when: " + s.When
	}
	return text
}

// faultInVain says how a fault that was in force hit nothing, by what its step says must be
// seen of it, or "".
func faultInVain(r *usage, s history.PlannedStep, f *facts.Fault) string {
	p := s.Proof
	if p == nil {
		return ""
	}
	switch {
	case p.Idle != "" && strings.Contains(f.Begin.Cause, p.Idle):
		return p.Idle
	case p.Keeps && r.Params.Persistence == "none":
		return "the nodes keep nothing on disk"
	case p.Off > 0 && wrongBy(r, s, f) < p.Off:
		return fmt.Sprintf("the clock of %s was not wrong by as much as %v", f.Target, p.Off)
	}
	from, to, link := strings.Cut(f.Target, "-")
	switch {
	case link && to != history.Replica && absent(r, to, f):
		return to + " was down all the while"
	case link && to == history.Replica && absent(r, from, f), !link && absent(r, f.Target, f):
		return from + " was down all the while"
	}
	return unused(r, p, f)
}

// wrongBy is how far a fault has turned a clock while it lasted. What sets another right
// again, which is in force, has done something.
func wrongBy(r *usage, s history.PlannedStep, f *facts.Fault) time.Duration {
	by := s.By.Abs()
	if s.Rate != 0 {
		by = time.Duration(max(s.Rate-1, 1-s.Rate) * float64(spanOf(r.Facts, f).Length()))
	}
	if r.clocks[f.Target].Reached(f.Begin.T-1) > f.Begin.T {
		return facts.Never
	}
	return by
}

// spanOf is where a fault was in force.
func spanOf(r *facts.Facts, f *facts.Fault) spans.Span {
	s := spans.Of(f.First().T, max(r.End, f.Begin.T))
	if f.End != nil {
		s.To = f.End.T
	}
	return s
}

// absent says whether a node was down already, and did not come back before a fault of it or
// of its link was over.
func absent(r *usage, node string, f *facts.Fault) bool {
	// What a rate has made of a clock stays when it ends, what a jump has does not.
	stays := f.Kind == "clock-rate" || f.Kind == "clock-slew"
	d := r.downs[node].last(f)
	switch {
	case d == nil:
		return false
	case d.End == nil:
		return true
	}
	return f.End != nil && !stays && d.End.T > f.Begin.T && f.End.T <= d.End.T
}

// unused says that no lock made use of what a fault hit while it lasted, or "".
func unused(r *usage, p *history.Proof, f *facts.Fault) string {
	span := spanOf(r.Facts, f)
	node, of := f.Target, history.UseNode
	from, to, link := strings.Cut(f.Target, "-")
	switch {
	case r.clients[f.Target]:
		of = history.UseClient
	case link && to == history.Replica:
		node, of = from, history.UseLink
	case link:
		node, of = to, history.UseLink
	}
	switch {
	case !slices.Contains(p.Use, of):
		return ""
	case of != history.UseClient && len(r.Links) == 0 && slices.ContainsFunc(r.Params.Clients, func(c string) bool { return r.inSessions()[c].Meets(span) }):
		return "" // the record tells of no commands
	case of == history.UseClient:
		if !r.inSessions()[f.Target].Meets(span) {
			return f.Target + " wanted no lock meanwhile, and had none"
		}
	case of == history.UseNode:
		if !r.asked(traffic{node: node}).Meets(span) && !r.keysOn(node).Meets(spans.Of(span.From, span.From)) && !counted(r, f) &&
			(p.Off > 0 || !wanted(r, "", node, span)) {
			return node + " was asked nothing meanwhile, and had no key of a lock"
		}
	case to == history.Replica:
		if !r.asked(traffic{node: node, ok: true}).Meets(span) {
			return node + " had nothing to replicate meanwhile"
		}
	case !r.asked(traffic{process: f.Target}).Meets(span) && !wanted(r, from, node, span):
		return f.Target + " carried nothing meanwhile"
	}
	return ""
}

// counted reports whether a node that a fault ends had counted grants since it last was without
// memory: what fencing tokens are made of outlives all keys.
func counted(r *usage, f *facts.Fault) bool {
	if !endsNode(f) {
		return false
	}
	since := int64(spans.Ever)
	if before := r.downs[f.Target].last(f); before != nil && r.Params.Persistence == "none" {
		since = before.Begin.T
	}
	return slices.ContainsFunc(r.Links, func(e *history.Event) bool {
		return e.Op == history.OpSet && e.Fence > 0 && e.Node == f.Target && facts.Applied(e) > since && facts.Applied(e) < f.Begin.T
	})
}

// wanted reports whether somebody, or one client, must have tried to ask a node in a span,
// though no command of it was seen there, as where no connection came about. Who calls an
// operation asks; who waits in one asks again within a round. A node that nobody has asked
// at any time, though others were, is none that the lock uses.
func wanted(r *usage, client, node string, span spans.Span) bool {
	work := node == r.Params.Resource
	if !work && len(r.Links) > 0 && len(r.asked(traffic{node: node}).Spans) == 0 && !spans.Covering([]spans.Span{span}, spans.Of(r.First, r.Last)) {
		return false
	}
	round := int64(r.Params.NodeTimeout + r.Params.RetryMax)
	asks := r.doings(doing{client: client, all: client == "", work: work})
	before := asks.Begun(span.From - 1)
	return asks.Begun(span.To) > before || before > 0 && min(asks.Reached(span.From-1), r.End, span.To)-span.From > round
}

// lateness is what stalls of the machine may have made late.
type lateness struct {
	r      *facts.Facts
	stalls []spans.Span
	ends   []int64 // of beliefs, in the order of time
	plan   []int64 // what the nemesis did, likewise
}

func latenessOf(r *facts.Facts) lateness {
	l := lateness{r: r, stalls: spans.Stalls(r)}
	if len(l.stalls) == 0 {
		return l
	}
	for s := range r.Sessions() {
		for b := range r.Windows(s) {
			l.ends = append(l.ends, b.To)
		}
	}
	for _, f := range r.Faults {
		if f.Kind == history.OpStall {
			continue
		}
		for _, e := range []*history.Event{f.Invoke, f.Begin, f.End} {
			if e != nil {
				l.plan = append(l.plan, e.T)
			}
		}
	}
	slices.Sort(l.ends)
	slices.Sort(l.plan)
	return l
}

// stalled adds to a result the longest stall that may be why an expected violation did not come,
// or came of another cause. A stall matters to what a violation's witness shows if it lies within
// the span of that; and to all that was to happen at some instant of the run, if it made that late:
//
//	▒▒▒ stall ▒▒▒
//	       |  a holder's deadline: it could do nothing before that
//	              |  a step of the plan, due meanwhile, comes as soon as the stall is over
//
// A stall that made nothing late is no excuse.
func (l lateness) stalled(res verdict.Result) verdict.Result {
	if len(l.stalls) == 0 {
		return res
	}
	witness := witnessed(l.r, res.Witness)
	for _, s := range l.stalls {
		if witness.From < s.To && s.From < witness.To || l.by(s) {
			res.Stalled = max(res.Stalled, history.Seconds(s.Length()))
		}
	}
	return res
}

// by says whether a belief ended in a stall, or the plan was late by it.
func (l lateness) by(stall spans.Span) bool {
	return within(l.ends, stall) || within(l.plan, spans.Of(stall.From, stall.To+int64(l.r.Params.Slack)))
}

// within reports whether one of the instants lies in a span, but not at an end of it.
func within(instants []int64, s spans.Span) bool {
	i := spans.UpTo(instants, s.From)
	return i < len(instants) && instants[i] < s.To
}

// witnessed is the span of what a witness shows.
func witnessed(r *facts.Facts, w *verdict.Witness) spans.Span {
	if w == nil {
		return spans.Of(facts.Never, spans.Ever)
	}
	span := spans.Of(w.From, w.To)
	shows := map[int64]bool{}
	for _, n := range w.Events {
		shows[n] = true
	}
	for i := range r.Events {
		if e := &r.Events[i]; shows[e.N] {
			span.From, span.To = min(span.From, e.T), max(span.To, e.T)
		}
	}
	return span
}

// mostUnplanned bounds how many faults are told that nobody planned.
const mostUnplanned = 3

// unplanned says what hit the run that no plan has, if something did. Such a run shows
// nothing, whatever came of it: neither that a lock holds under the plan's faults, nor that
// these break it. A host that stalled is another matter: nobody is to blame for it, it hits
// all alike, and it happens so often that each property allows for it.
func unplanned(r *facts.Facts) (text string, hit bool) {
	var all []string
	for _, f := range r.Faults {
		if f.Step != history.Unplanned || f.Begin == nil {
			continue
		}
		is := cmp.Or(unplannedWords[f.Kind], "was hit by "+f.Kind)
		text := fmt.Sprintf("%s %s at %s", f.Target, is, facts.Seconds(f.Begin.T))
		if f.Begin.Cause != "" {
			text += " (" + f.Begin.Cause + ")"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "", false
	}
	if more := len(all) - mostUnplanned; more > 0 {
		all = append(all[:mostUnplanned:mostUnplanned], fmt.Sprintf("and %d more", more))
	}
	return "nobody planned it: " + strings.Join(all, "; "), true
}

// unplannedWords tell of each kind of such a fault.
var unplannedWords = map[string]string{
	facts.Kill: "ended", facts.Pause: "stood still", history.OpGoOn: "went on",
}

// downs is where a node was down, in the order of the begins: of those up to each the one
// that lasted longest, and the longest besides.
type downs struct {
	begins         []int64
	longest, other []*facts.Fault
}

// last is of those that had begun when a fault did the one that lasted longest, but for the
// fault itself; nil: there was none.
func (d *downs) last(f *facts.Fault) *facts.Fault {
	if d == nil {
		return nil
	}
	i := spans.UpTo(d.begins, f.Begin.T)
	switch {
	case i == 0:
		return nil
	case d.longest[i-1] == f:
		return d.other[i-1]
	}
	return d.longest[i-1]
}

// add puts another fault behind those that are there.
func (d *downs) add(f *facts.Fault) {
	longest, other := f, (*facts.Fault)(nil)
	if i := len(d.begins) - 1; i >= 0 {
		longest, other = d.longest[i], d.other[i]
		switch {
		case f.To() > longest.To():
			longest, other = f, longest
		case other == nil || f.To() > other.To():
			other = f
		}
	}
	d.begins, d.longest, d.other = append(d.begins, f.Begin.T), append(d.longest, longest), append(d.other, other)
}

// usage is what a lock made use of and when, in order, so that each step of a plan can ask
// what its fault hit. What may be long is made when it is first asked for.
type usage struct {
	*facts.Facts
	clients map[string]bool         // of the run
	steps   map[int][]*facts.Fault  // the faults of each
	clocks  map[string]spans.Spread // by process: faults that turn clocks
	downs   map[string]*downs       // by node

	sessions map[string]spans.Spread // by client
	commands map[traffic]spans.Spread
	keys     map[string]spans.Spread // by node
	done     map[doing]spans.Spread
}

func newUsage(r *facts.Facts) *usage {
	u := &usage{Facts: r, clients: map[string]bool{}, steps: map[int][]*facts.Fault{}, downs: map[string]*downs{}, done: map[doing]spans.Spread{}}
	for _, c := range r.Params.Clients {
		u.clients[c] = true
	}
	turned := map[string][]spans.Span{}
	var down []*facts.Fault
	for _, f := range r.Faults {
		u.steps[f.Step] = append(u.steps[f.Step], f)
		switch {
		case f.Begin == nil:
		case f.TurnsClock():
			turned[f.Target] = append(turned[f.Target], spans.Of(f.Begin.T, f.To()))
		case endsNode(f):
			down = append(down, f)
		}
	}
	u.clocks = spreads(turned)
	slices.SortStableFunc(down, func(a, b *facts.Fault) int { return cmp.Compare(a.Begin.T, b.Begin.T) })
	for _, f := range down {
		if u.downs[f.Target] == nil {
			u.downs[f.Target] = &downs{}
		}
		u.downs[f.Target].add(f)
	}
	return u
}

// endsNode reports whether a fault ends the process that it hits.
func endsNode(f *facts.Fault) bool {
	return f.Kind == facts.Kill || f.Kind == facts.Shutdown || f.Kind == facts.PowerLoss
}

// traffic is what links saw of one link (with its process), or of one node.
type traffic struct {
	process, node string
	ok            bool // only those that a node said yes to
}

// doing is operations of one client, or of all, on the lock or on the resource.
type doing struct {
	client string
	all    bool
	work   bool // on the resource
}

// spreads puts spans in order by what they are of.
func spreads[K comparable](of map[K][]spans.Span) map[K]spans.Spread {
	all := map[K]spans.Spread{}
	for k, list := range of {
		all[k] = spans.SpreadOf(list)
	}
	return all
}

// inSessions is where each client wanted a lock or had one.
func (r *usage) inSessions() map[string]spans.Spread {
	if r.sessions == nil {
		of := map[string][]spans.Span{}
		for s := range r.Sessions() {
			of[s.Client()] = append(of[s.Client()], busy(r.Facts, s))
		}
		r.sessions = spreads(of)
	}
	return r.sessions
}

// busy is from a session's call to the last that was done in it.
func busy(r *facts.Facts, s *facts.Session) spans.Span {
	to := spans.Wait(r, s).To
	for a := range s.Actions() {
		if to = max(to, a.Call.T); a.Return == nil {
			to = facts.Never
		} else {
			to = max(to, a.Return.T)
		}
	}
	return spans.Of(s.Acquire.Call.T, to)
}

// asked is where commands of a sort were under way.
func (r *usage) asked(c traffic) spans.Spread {
	if r.commands == nil {
		of := map[traffic][]spans.Span{}
		for _, e := range r.Links {
			span := spans.Of(e.Sent, max(e.T, e.Applied, e.Answered))
			of[traffic{process: e.Process}] = append(of[traffic{process: e.Process}], span)
			of[traffic{node: e.Node}] = append(of[traffic{node: e.Node}], span)
			if e.Type == history.OK {
				yes := traffic{node: e.Node, ok: true}
				of[yes] = append(of[yes], span)
			}
		}
		r.commands = spreads(of)
	}
	return r.commands[c]
}

// keysOn is where each node had a lock's key: one that was set or extended less than its
// TTL before, and not deleted since.
func (r *usage) keysOn(node string) spans.Spread {
	if r.keys == nil {
		type place struct{ node, key string }
		of := map[string][]spans.Span{}
		deleted := map[place]int64{} // by a release that is in the record after what is looked at
		for i := len(r.Links) - 1; i >= 0; i-- {
			e := r.Links[i]
			p, at := place{e.Node, e.Key}, facts.Applied(e)
			end, ok := deleted[p]
			switch {
			case e.Type != history.OK:
			case e.Op == history.OpRelease && (!ok || at < end):
				deleted[p] = at
			case e.Op == history.OpRelease:
			default:
				has := spans.Of(at, at+cmp.Or(e.TTL, int64(r.Params.TTL)))
				if ok {
					has.To = min(has.To, end-1)
				}
				if has.From <= has.To {
					of[e.Node] = append(of[e.Node], has)
				}
			}
		}
		r.keys = spreads(of)
	}
	return r.keys[node]
}

// doings is where operations of a sort were under way.
func (r *usage) doings(d doing) spans.Spread {
	if _, ok := r.done[doing{all: d.all}]; !ok {
		of := map[doing][]spans.Span{{all: d.all}: nil}
		for s := range r.Sessions() {
			k := doing{client: s.Client()}
			if d.all {
				k = doing{all: true}
			}
			of[k] = append(of[k], spans.Of(s.Acquire.Call.T, s.Acquire.Ended()))
			for a := range s.Actions() {
				if a.Call.Op != history.OpCheck {
					k.work = a.Call.Op == history.OpRead || a.Call.Op == history.OpWrite
					of[k] = append(of[k], spans.Of(a.Call.T, a.Ended()))
				}
			}
		}
		for k, list := range of {
			r.done[k] = spans.SpreadOf(list)
		}
	}
	return r.done[d]
}
