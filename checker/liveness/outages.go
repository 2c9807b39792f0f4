package liveness

import (
	"cmp"
	"slices"
	"sort"
	"sync"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// takenBy is what one fault takes away. A client's clock that jumps is its wall clock, by which
// nobody has to wait, and no key to live. A link that is late takes little as long as the
// answer comes within the node time-out, though both ways be late.
func takenBy(r *facts.Facts, own map[string]bool, f *facts.Fault) taken {
	if i := f.Step - 1; i >= 0 && i < len(r.Params.Steps) {
		step := r.Params.Steps[i]
		if said, ok := costs[step.Costs]; ok {
			return said
		}
		if late := step.Delay; f.Kind == "delay" && late > 0 && 2*late < r.Params.NodeTimeout {
			return little
		}
	}
	if jumps(r, own, f) != 0 || f.Kind == facts.ClockJump && slices.Contains(r.Params.Clients, f.Target) {
		return none
	}
	if t, ok := takes[f.Kind]; ok {
		return t
	}
	return all
}

// outages is where the faults of a record took the answers of whom. Names are
// those of clients, nodes and links.
type outages struct {
	of     map[string][]spans.Span // of a client, node or link
	all    []spans.Span            // nobody was promised anything
	little map[string][]spans.Span // where a fault kept single messages, by link
	nodes  []string
	quorum int
	reach  map[string]map[string]bool // of clients that can't reach every node
	links  map[string][]spans.Span    // memo of link
	up     map[string][]spans.Span    // memo of majority

	settling int64 // what a client may need after a fault to notice that it is over
}

func outagesOf(r *facts.Facts, takenBy func(*facts.Fault) taken) *outages {
	o := &outages{of: map[string][]spans.Span{}, links: map[string][]spans.Span{}, reach: map[string]map[string]bool{}, little: map[string][]spans.Span{}, nodes: r.Params.Nodes, quorum: quorumOf(&r.Params), up: map[string][]spans.Span{},
		settling: int64(r.Params.NodeTimeout + r.Params.RetryMax + r.Params.Slack)}
	for _, f := range r.Faults {
		switch takenBy(f) {
		case answers:
			o.of[f.Target] = append(o.of[f.Target], during(r, f))
		case all:
			o.all = append(o.all, during(r, f))
		case none:
		default:
			o.little[f.Target] = append(o.little[f.Target], during(r, f))
		}
	}
	unite(o.little)
	unite(o.of)
	o.all = spans.Union(o.all)
	for _, reach := range r.Params.Reach {
		o.reach[reach.Client] = map[string]bool{}
		for _, n := range reach.Nodes {
			o.reach[reach.Client][n] = true
		}
	}
	return o
}

// unite makes lists of spans that are in any order.
func unite(of map[string][]spans.Span) {
	for name, list := range of {
		of[name] = spans.Union(list)
	}
}

// client is where a client did nothing, or nothing is promised it.
func (o *outages) client(name string) []spans.Span {
	return spans.Union(slices.Concat(o.of[name], o.all))
}

// link is where a client had nothing of a node, both alive or not.
func (o *outages) link(client, node string) []spans.Span {
	name := client + "-" + node
	return remember(o.links, name, func() []spans.Span {
		if o.never(client, node) {
			return []spans.Span{{From: spans.Ever, To: facts.Never}}
		}
		return spans.Union(slices.Concat(o.of[name], o.of[node], o.of[client], o.all))
	})
}

// never reports whether a client can't reach a node at any time.
func (o *outages) never(client, node string) bool {
	nodes, ok := o.reach[client]
	return ok && !nodes[node]
}

// majority is where a client goes on and reaches as many nodes that answer as the lock needs, both ways.
func (o *outages) majority(client string) []spans.Span {
	return remember(o.up, client, func() []spans.Span { return o.majorityBut(client, nil) })
}

// majorityBut is the same where nodes are kept from the client by more than
// faults, each in the spans of its name.
func (o *outages) majorityBut(client string, kept map[string][]spans.Span) []spans.Span {
	if len(o.nodes) == 0 {
		return nil
	}
	var lost [][]spans.Span
	for _, n := range o.nodes {
		list := o.link(client, n)
		if more := kept[n]; len(more) > 0 {
			list = spans.Union(slices.Concat(list, more))
		}
		lost = append(lost, list)
	}
	tooMany := len(o.nodes) - o.quorum + 1
	return spans.Outside(spans.Union(slices.Concat(spans.AtLeast(tooMany, lost...), o.client(client))))
}

// settled takes from each span the time that a client may need after a fault to
// notice that it is over: an attempt that waits for its node time-out, a retry
// delay, and slack. Where nothing came before there is nothing to notice.
func (o *outages) settled(list []spans.Span) []spans.Span {
	var left []spans.Span
	for _, s := range list {
		if s.From != spans.Ever {
			s.From += o.settling
		}
		if s.From < s.To {
			left = append(left, s)
		}
	}
	return left
}

// conditions is a record with what its faults did to those that a lock needs.
type conditions struct {
	*facts.Facts
	down    *outages
	carried *outages // the same, but a link that is only slow, or loses less than half of the messages, carries them all the same
	slowest int64    // by how much such a link delays a request and its reply, at most
	keys    lapses
	stalls  []spans.Span // of the host
}

func conditionsOf(r *facts.Facts) *conditions {
	own := ownClocks(r)
	c := &conditions{Facts: r, keys: lapsesOf(r, own), stalls: spans.Union(spans.Stalls(r))}
	c.down = outagesOf(r, func(f *facts.Fault) taken { return takenBy(r, own, f) })
	for _, step := range r.Params.Steps {
		if late := 2 * int64(step.Delay); step.Fault == "delay" && late < rounds(&r.Params) {
			c.slowest = max(c.slowest, late)
		}
	}
	answered := mostlyAnswered(r)
	c.carried = outagesOf(r, func(f *facts.Fault) taken {
		i := f.Step - 1
		slow := f.Kind == "delay" && i >= 0 && i < len(r.Params.Steps) && 2*int64(r.Params.Steps[i].Delay) < rounds(&r.Params)
		if slow || f.Kind == "lose" && answered(f) {
			return little
		}
		return takenBy(r, own, f)
	})
	return c
}

// mostlyAnswered returns a function that reports whether a link brought answers to more than half of the commands
// that were sent on it while a fault was in force. The record does not say what share of messages a link loses.
func mostlyAnswered(r *facts.Facts) func(f *facts.Fault) bool {
	type times struct{ sent, answered []int64 } // when commands were sent: all, and those that were answered
	links := sync.OnceValue(func() map[string]*times {
		links := map[string]*times{}
		for _, e := range r.Sent() {
			l := remember(links, e.Process, func() *times { return &times{} })
			l.sent = append(l.sent, e.Sent)
			if e.Answered != 0 {
				l.answered = append(l.answered, e.Sent)
			}
		}
		return links
	})
	return func(f *facts.Fault) bool {
		l, in := links()[f.Target], during(r, f)
		if l == nil {
			return false
		}
		within := func(list []int64) int { return spans.UpTo(list, in.To) - spans.UpTo(list, in.From) }
		return 2*within(l.answered) > within(l.sent)
	}
}

// real reports whether the run was in real time, where the host can be slow.
func (c *conditions) real() bool { return c.Params.StampError > 0 || len(c.stalls) > 0 }

// A stall of the host is no fault: it lengthens a bound by its own length and by what it can
// have delayed, and erases nothing.
//
//	bound        |==============|
//	stalls         ▒▒      ▒       ▒▒▒
//	lengthened   |=====================|
//	gap          |------------------------------|     violated: stalls do not explain the rest
//	gap          |------------------|                 undecided: only stalls may explain it
//
// What a stall can have delayed is an attempt that was under way: where so many answers did
// not come in time that the attempt may have failed for that alone, its client has lost a round.
// Keys that stayed on a node because the host was slow are in lockState.slow.

// delayed is how much of a span, and of the time that clients may take to notice that an outage
// before it is over, the host stalled or attempts of these clients were lost to stalls.
func (c *lockState) delayed(clients []string, in spans.Span) int64 {
	if len(c.stalls) == 0 {
		return 0
	}
	if in.From > spans.Ever+c.down.settling {
		in.From -= c.down.settling
	}
	if len(clients) == 1 {
		return c.delays(clients[0]).Share(in)
	}
	var all []spans.Span
	for _, client := range clients {
		all = append(all, spans.After(c.spoiled()[client], in.From)...)
	}
	return spans.Share(spans.Union(append(all, spans.After(c.stalls, in.From)...)), in)
}

// delays returns the spans in which the host stalled or the client's attempts were lost to a stall.
func (c *lockState) delays(client string) spans.Measured {
	return remember(c.delaysOf, client, func() spans.Measured {
		return spans.Measure(spans.Union(slices.Concat(c.stalls, c.spoiled()[client])))
	})
}

// spoiled returns, by client, the rounds lost to stalls: from the start of an attempt to the latest
// instant at which its client tries again.
func (c *lockState) spoiled() map[string][]spans.Span {
	if c.spoils != nil {
		return c.spoils
	}
	c.spoils = map[string][]spans.Span{}
	if c.wire == nil {
		return c.spoils
	}
	timeout, retry := int64(c.Params.NodeTimeout), int64(c.Params.RetryMax)
	for _, a := range c.wire.Attempts {
		if !a.Won && spans.Meets(c.stalls, spans.Of(a.From, a.To+1)) && c.couldHaveWon(a) {
			client := a.Session.Client()
			c.spoils[client] = append(c.spoils[client], spans.Of(a.From, max(a.To, a.From+timeout)+retry))
		}
	}
	unite(c.spoils)
	return c.spoils
}

// couldHaveWon reports whether an attempt had too few votes, and would have had enough if each
// node whose answer was late had given one. Nodes that a fault kept away are not late.
func (c *lockState) couldHaveWon(a *facts.Attempt) bool {
	answers := map[string]*history.Event{}
	for _, e := range a.Asked {
		answers[e.Node] = e
	}
	votes, late := 0, 0
	for _, n := range c.Params.Nodes {
		switch e := answers[n]; {
		case e != nil && !c.missing(e):
			if e.Type == history.OK {
				votes++
			}
		case !spans.Meets(c.down.link(a.Session.Client(), n), spans.Of(a.From, a.To+1)):
			late++
		}
	}
	quorum := quorumOf(&c.Params)
	return votes < quorum && votes+late >= quorum
}

// stalledFor says how long the host stalled in a span, and that this may be why.
func (c *lockState) stalledFor(in spans.Span) string {
	return "the host stalled for " + facts.Seconds(spans.Share(c.stalls, in)) + " meanwhile, which may be why"
}

// taken is what a kind of fault takes away from what it hits, for as long as it
// is in force.
type taken int

const (
	// none: no answer comes later, nor fails to come.
	none taken = iota
	// little: nothing that a lock needs for longer than a node time-out. A client has
	// other connections, and what was kept shows in its stamps.
	little
	// answers: the client or node does nothing, the link carries nothing. That a node
	// which was killed comes back without its keys is no matter here: it can vote, and
	// what it forgot can only free a lock.
	answers
	// all: nobody is promised anything, wherever it hits.
	all
)

// takes is what each kind of fault takes away. A kind that isn't here takes all, such as those
// that turn a clock: keys then live longer, and clients wait longer, by what the record
// doesn't tell. A clock that jumps is another matter: see takenBy. So is a stall of the host,
// which is nobody's fault and lengthens bounds: see lockState.delayed.
var takes = map[string]taken{
	history.OpStall: none,
	facts.Kill:      answers, facts.Shutdown: answers, facts.PowerLoss: answers, facts.Failover: answers, // of a client or node
	facts.Pause: answers, "gc": answers, // of a client
	"slow-disk": answers, "full-disk": answers, "unplug": answers, "starve": answers, // of a node
	facts.Cut: answers, "delay": answers, "throttle": answers, "lose": answers, // of a link
	"hold": little, "drop": little, // a single message
	"touch": little, // another key
}

// costs is the same for kinds of which the record says it.
var costs = map[string]taken{history.CostsNothing: none, history.CostsLittle: little, history.CostsAnswers: answers}

// quorumOf is how many nodes' votes the lock needs: as many as the record says, or a majority.
func quorumOf(p *history.Params) int {
	if nodes := len(p.Nodes); p.Quorum <= 0 || p.Quorum > nodes {
		return nodes/2 + 1
	}
	return p.Quorum
}

// rounds is how long a lock that is free and available may go without a grant.
func rounds(p *history.Params) int64 {
	return int64(p.Rounds)*int64(p.NodeTimeout+p.RetryMax) + int64(p.Slack)
}

// missingFigure names a figure that a bound of liveness needs and the history lacks.
func missingFigure(p *history.Params) string {
	switch {
	case p.TTL == 0:
		return "TTL"
	case p.NodeTimeout == 0:
		return "node time-out"
	case p.RetryMax == 0:
		return "retry delay"
	}
	return ""
}

// setBack is that a node's clock was set back: what it keeps lives longer by as much.
type setBack struct {
	spans.Span // in which it happened
	by         int64
}

// setBacks is the steps back of one node's clock, in order, so that nobody need look at
// each of them to know by how much a key lives longer.
type setBacks struct {
	steps []setBack     // in the order of their begin
	by    []int64       // the sum of the steps before each; and of all
	ends  []setBack     // in the order of their end
	over  []int64       // the sum of those before each; and of all
	begin history.Peaks // of each step, less the sum of those before it
	great bool          // the sums may overflow
}

// setBacksOf puts steps in order. It keeps them.
func setBacksOf(steps []setBack) *setBacks {
	b := &setBacks{steps: steps, ends: slices.Clone(steps)}
	slices.SortStableFunc(b.steps, func(x, y setBack) int { return cmp.Compare(x.From, y.From) })
	slices.SortStableFunc(b.ends, func(x, y setBack) int { return cmp.Compare(x.To, y.To) })
	b.by, b.over = sums(b.steps), sums(b.ends)
	begins := make([]int64, len(steps))
	for i, s := range b.steps {
		begins[i] = s.From - b.by[i]
		b.great = b.great || max(s.From, -s.From, s.by, b.by[i+1], -b.by[i+1]) > facts.Never/8 || s.From == spans.Ever
	}
	b.begin = history.PeaksOf(begins)
	return b
}

func sums(steps []setBack) []int64 {
	sums := make([]int64, len(steps)+1)
	for i, s := range steps {
		sums[i+1] = sums[i] + s.by
	}
	return sums
}

// lapse is when a key that was set at an instant has lapsed at the latest, if it had by
// another without these steps.
func (b *setBacks) lapse(at, lapse int64) int64 {
	if lapse == facts.Never {
		return facts.Never
	}
	if b.great {
		for _, s := range b.steps {
			if s.To >= at && s.From <= lapse {
				lapse = spans.Plus(lapse, s.by)
			}
		}
		return lapse
	}
	first := sort.Search(len(b.steps), func(i int) bool { return b.steps[i].From >= at })
	done := sort.Search(len(b.ends), func(i int) bool { return b.ends[i].To >= at })
	if lapse = spans.Plus(lapse, b.by[first]-b.over[done]); lapse == facts.Never { // those under way at the instant
		return facts.Never
	}
	missed := b.begin.From(first, lapse-b.by[first]+1) // the first step that comes too late to give it more
	return spans.Plus(lapse, b.by[missed]-b.by[first])
}

// jumps is how far a fault sets a node's clock forward, or back where it is negative;
// 0 if that isn't all that it does, or the record doesn't tell. Where a replica took
// the node's place the clock is another one, and not among the nodes' own.
func jumps(r *facts.Facts, own map[string]bool, f *facts.Fault) int64 {
	i := f.Step - 1
	if f.Kind != facts.ClockJump || i < 0 || i >= len(r.Params.Steps) || !own[f.Target] {
		return 0
	}
	return int64(r.Params.Steps[i].By)
}

// ownClocks is the nodes whose place no replica took.
func ownClocks(r *facts.Facts) map[string]bool {
	own := map[string]bool{}
	for _, n := range r.Params.Nodes {
		own[n] = true
	}
	for _, f := range r.Faults {
		if f.Kind == facts.Failover {
			delete(own, f.Target)
		}
	}
	return own
}

// during is the span in which a fault may have been in force: from its first event until
// its end, which is stamped before it begins, has surely been done. A node has to start.
func during(r *facts.Facts, f *facts.Fault) spans.Span {
	s := spans.Of(f.First().T, facts.Never)
	if f.End != nil {
		s.To = f.End.T + int64(r.Params.Slack)
	}
	return s
}

// lapses says when keys have lapsed, on whichever node.
type lapses struct {
	life int64                // how long a key lives at the longest, by a right clock
	back map[string]*setBacks // all steps back of the nodes' clocks, by node
}

// lapsesOf finds the steps back in a record. A clock that was set forward is set
// back when the fault ends.
func lapsesOf(r *facts.Facts, own map[string]bool) lapses {
	l := lapses{life: facts.Never, back: map[string]*setBacks{}}
	if r.Params.TTL != 0 {
		l.life = int64(float64(r.Params.TTL) * (1 + r.Params.Rate))
	}
	all := map[string][]setBack{}
	for _, f := range r.Faults {
		switch by := jumps(r, own, f); {
		case by < 0 && f.Begin != nil:
			all[f.Target] = append(all[f.Target], setBack{spans.Of(f.First().T, f.Begin.T), -by})
		case by < 0: // it may have been
			all[f.Target] = append(all[f.Target], setBack{spans.Of(f.First().T, facts.Never), -by})
		case by > 0 && f.End != nil:
			all[f.Target] = append(all[f.Target], setBack{spans.Of(f.End.T, during(r, f).To), by})
		}
	}
	for node, steps := range all {
		l.back[node] = setBacksOf(steps)
	}
	return l
}

// of is when a key that was set or extended at an instant has lapsed at the latest:
// TTL·(1+ρ) later, and by as much as its node's clock was set back meanwhile.
func (l lapses) of(at int64) int64 {
	alone := spans.Plus(at, l.life)
	latest := alone
	for _, back := range l.back {
		latest = max(latest, back.lapse(at, alone))
	}
	return latest
}

// longest is how long any key may have lived.
func (l lapses) longest() int64 {
	most := int64(0)
	for _, back := range l.back {
		most = max(most, back.by[len(back.steps)])
	}
	return spans.Plus(l.life, most)
}
