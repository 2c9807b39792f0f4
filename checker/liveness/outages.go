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

// impactOf returns a fault's impact. A clock jump on a client changes nothing but the client's wall
// clock, which determines neither how long anyone waits nor how long keys live. A delayed link
// disables little if answers still arrive within the node timeout when both directions are delayed.
func impactOf(r *facts.Facts, noFailover map[string]bool, f *facts.Fault) impact {
	if i := f.Step - 1; i >= 0 && i < len(r.Params.Steps) {
		step := r.Params.Steps[i]
		if declaredImpact, ok := impactByName[step.Impact]; ok {
			return declaredImpact
		}
		if delay := step.Delay; f.Kind == "delay" && delay > 0 && 2*delay < r.Params.NodeTimeout {
			return impactMessages
		}
	}
	if clockJump(r, noFailover, f) != 0 || f.Kind == facts.ClockJump && slices.Contains(r.Params.Clients, f.Target) {
		return impactNone
	}
	if t, ok := impactByKind[f.Kind]; ok {
		return t
	}
	return impactAll
}

// outages holds the spans during which faults disabled clients, nodes and links.
type outages struct {
	spansByTarget map[string][]spans.Span // spans without answers, by client, node or link
	globalSpans   []spans.Span            // spans during which nobody is guaranteed anything
	messageSpans  map[string][]spans.Span // spans during which a fault affected single messages, by link
	nodes         []string
	quorum        int
	reachable     map[string]map[string]bool // reachable nodes, by client; omits clients that can reach every node
	linkMemo      map[string][]spans.Span    // cached result of linkDown
	majorityMemo  map[string][]spans.Span    // cached result of majority

	noticeTime int64 // how long a client may need to notice the end of a fault
}

func newOutages(r *facts.Facts, impactOf func(*facts.Fault) impact) *outages {
	o := &outages{spansByTarget: map[string][]spans.Span{}, linkMemo: map[string][]spans.Span{}, reachable: map[string]map[string]bool{}, messageSpans: map[string][]spans.Span{}, nodes: r.Params.Nodes, quorum: quorumSize(&r.Params), majorityMemo: map[string][]spans.Span{},
		noticeTime: int64(r.Params.NodeTimeout + r.Params.RetryMax + r.Params.Slack)}
	for _, f := range r.Faults {
		switch impactOf(f) {
		case impactAnswers:
			o.spansByTarget[f.Target] = append(o.spansByTarget[f.Target], faultSpan(r, f))
		case impactAll:
			o.globalSpans = append(o.globalSpans, faultSpan(r, f))
		case impactNone:
		default:
			o.messageSpans[f.Target] = append(o.messageSpans[f.Target], faultSpan(r, f))
		}
	}
	uniteAll(o.messageSpans)
	uniteAll(o.spansByTarget)
	o.globalSpans = spans.Union(o.globalSpans)
	for _, clientReach := range r.Params.Reach {
		o.reachable[clientReach.Client] = map[string]bool{}
		for _, n := range clientReach.Nodes {
			o.reachable[clientReach.Client][n] = true
		}
	}
	return o
}

func uniteAll(spansByName map[string][]spans.Span) {
	for name, list := range spansByName {
		spansByName[name] = spans.Union(list)
	}
}

// clientDown returns the spans during which a client did nothing or was guaranteed nothing.
func (o *outages) clientDown(name string) []spans.Span {
	return spans.Union(slices.Concat(o.spansByTarget[name], o.globalSpans))
}

// linkDown returns the spans during which a client could get no answer from a node, because the
// client, the node or the link was down.
func (o *outages) linkDown(client, node string) []spans.Span {
	name := client + "-" + node
	return memoize(o.linkMemo, name, func() []spans.Span {
		if o.neverReaches(client, node) {
			return []spans.Span{{From: spans.DistantPast, To: facts.Never}}
		}
		return spans.Union(slices.Concat(o.spansByTarget[name], o.spansByTarget[node], o.spansByTarget[client], o.globalSpans))
	})
}

// neverReaches reports whether a client can't ever reach a node.
func (o *outages) neverReaches(client, node string) bool {
	nodes, ok := o.reachable[client]
	return ok && !nodes[node]
}

// majority returns the spans during which a client is running and can get answers from as many
// nodes as the lock needs.
func (o *outages) majority(client string) []spans.Span {
	return memoize(o.majorityMemo, client, func() []spans.Span { return o.majorityWithout(client, nil) })
}

// majorityWithout is like majority, but excludes each node during the spans that excluded lists for
// it.
func (o *outages) majorityWithout(client string, excluded map[string][]spans.Span) []spans.Span {
	if len(o.nodes) == 0 {
		return nil
	}
	var downSpans [][]spans.Span
	for _, n := range o.nodes {
		list := o.linkDown(client, n)
		if excludedSpans := excluded[n]; len(excludedSpans) > 0 {
			list = spans.Union(slices.Concat(list, excludedSpans))
		}
		downSpans = append(downSpans, list)
	}
	tooMany := len(o.nodes) - o.quorum + 1
	return spans.Complement(spans.Union(slices.Concat(spans.AtLeast(tooMany, downSpans...), o.clientDown(client))))
}

// trimRecovery cuts off the start of each span while clients may not have noticed the end of a
// fault yet: an attempt that waits for its node timeout, a retry delay, and slack. A span that does
// not follow a fault keeps its start.
func (o *outages) trimRecovery(list []spans.Span) []spans.Span {
	var trimmed []spans.Span
	for _, s := range list {
		if s.From != spans.DistantPast {
			s.From += o.noticeTime
		}
		if s.From < s.To {
			trimmed = append(trimmed, s)
		}
	}
	return trimmed
}

// conditions is a record together with the effects of its faults on what a lock needs.
type conditions struct {
	*facts.Facts
	outages        *outages
	lenientOutages *outages // ignores faults that only slow down a link or make it lose less than half of its messages
	maxLinkDelay   int64    // the longest delay that such a link adds to a request and its reply
	lapses         lapses
	stalls         []spans.Span // host stalls
}

func newConditions(r *facts.Facts) *conditions {
	noFailover := nodesWithoutFailover(r)
	c := &conditions{Facts: r, lapses: newLapses(r, noFailover), stalls: spans.Union(spans.Stalls(r))}
	c.outages = newOutages(r, func(f *facts.Fault) impact { return impactOf(r, noFailover, f) })
	for _, step := range r.Params.Steps {
		if roundTripDelay := 2 * int64(step.Delay); step.Fault == "delay" && roundTripDelay < roundsBound(&r.Params) {
			c.maxLinkDelay = max(c.maxLinkDelay, roundTripDelay)
		}
	}
	wasAnswered := mostlyAnswered(r)
	c.lenientOutages = newOutages(r, func(f *facts.Fault) impact {
		i := f.Step - 1
		isSlow := f.Kind == "delay" && i >= 0 && i < len(r.Params.Steps) && 2*int64(r.Params.Steps[i].Delay) < roundsBound(&r.Params)
		if isSlow || f.Kind == "lose" && wasAnswered(f) {
			return impactMessages
		}
		return impactOf(r, noFailover, f)
	})
	return c
}

// mostlyAnswered returns a function that reports whether more than half of the commands sent on a
// link during a fault were answered. The record does not say what share of messages a link loses.
func mostlyAnswered(r *facts.Facts) func(f *facts.Fault) bool {
	type times struct{ sent, answered []int64 } // send times of all commands and of answered ones
	links := sync.OnceValue(func() map[string]*times {
		links := map[string]*times{}
		for _, e := range r.SentCommands() {
			l := memoize(links, e.Process, func() *times { return &times{} })
			l.sent = append(l.sent, e.SentAt)
			if e.AnsweredAt != 0 {
				l.answered = append(l.answered, e.SentAt)
			}
		}
		return links
	})
	return func(f *facts.Fault) bool {
		l, span := links()[f.Target], faultSpan(r, f)
		if l == nil {
			return false
		}
		count := func(list []int64) int { return spans.CountUpTo(list, span.To) - spans.CountUpTo(list, span.From) }
		return 2*count(l.answered) > count(l.sent)
	}
}

// isRealTime reports whether the run was in real time, where the host can be slow.
func (c *conditions) isRealTime() bool { return c.Params.TimestampUncertainty > 0 || len(c.stalls) > 0 }

// A host stall is not a fault: it extends a bound by its length and by the rounds that it can have
// cost, but it suspends no guarantee.
//
//	bound        |==============|
//	stalls         ▒▒      ▒       ▒▒▒
//	extended     |=====================|
//	gap          |------------------------------|     violated: stalls do not explain the remainder
//	gap          |------------------|                 undecided: only stalls may explain it
//
// A stall can delay an attempt in progress. If so many answers were late that the attempt may have
// failed for that reason alone, its client has lost a round. Keys that stayed on a node because the
// host was slow are in lockState.keptByHost.

// stallDelay returns how long the host stalled or these clients lost rounds to stalls. It counts
// the time during a span, and before the span the time that clients may need to notice the end of
// an outage.
func (c *lockState) stallDelay(clients []string, span spans.Span) int64 {
	if len(c.stalls) == 0 {
		return 0
	}
	if span.From > spans.DistantPast+c.outages.noticeTime {
		span.From -= c.outages.noticeTime
	}
	if len(clients) == 1 {
		return c.delaySpans(clients[0]).Share(span)
	}
	var all []spans.Span
	for _, client := range clients {
		all = append(all, spans.EndingAfter(c.lostRounds()[client], span.From)...)
	}
	return spans.Share(spans.Union(append(all, spans.EndingAfter(c.stalls, span.From)...)), span)
}

// delaySpans returns the spans during which the host stalled or the client lost a round to a stall.
func (c *lockState) delaySpans(client string) spans.MeasuredSpans {
	return memoize(c.delaySpansMemo, client, func() spans.MeasuredSpans {
		return spans.Measure(spans.Union(slices.Concat(c.stalls, c.lostRounds()[client])))
	})
}

// lostRounds returns the rounds that each client lost to stalls. Each lasts from the start of an
// attempt to the latest time at which the client retries.
func (c *lockState) lostRounds() map[string][]spans.Span {
	if c.lostRoundsMemo != nil {
		return c.lostRoundsMemo
	}
	c.lostRoundsMemo = map[string][]spans.Span{}
	if c.attempts == nil {
		return c.lostRoundsMemo
	}
	timeout, retry := int64(c.Params.NodeTimeout), int64(c.Params.RetryMax)
	for _, a := range c.attempts.Attempts {
		if !a.Won && spans.Meets(c.stalls, spans.New(a.From, a.To+1)) && c.couldHaveWon(a) {
			client := a.Session.Client()
			c.lostRoundsMemo[client] = append(c.lostRoundsMemo[client], spans.New(a.From, max(a.To, a.From+timeout)+retry))
		}
	}
	uniteAll(c.lostRoundsMemo)
	return c.lostRoundsMemo
}

// couldHaveWon reports whether an attempt had too few votes, but would have had enough if each node
// that answered late had voted for it. Nodes that a fault made unreachable do not count as late.
func (c *lockState) couldHaveWon(a *facts.Attempt) bool {
	answers := map[string]*history.Event{}
	for _, e := range a.AllSets {
		answers[e.Node] = e
	}
	numVotes, numLate := 0, 0
	for _, n := range c.Params.Nodes {
		switch e := answers[n]; {
		case e != nil && !c.timedOut(e):
			if e.Type == history.OK {
				numVotes++
			}
		case !spans.Meets(c.outages.linkDown(a.Session.Client(), n), spans.New(a.From, a.To+1)):
			numLate++
		}
	}
	quorum := quorumSize(&c.Params)
	return numVotes < quorum && numVotes+numLate >= quorum
}

// stallMessage says how long the host stalled during a span, and that this may be the reason.
func (c *lockState) stallMessage(span spans.Span) string {
	return "the host stalled for " + facts.Seconds(spans.Share(c.stalls, span)) + " in the meantime, which may be why"
}

// impact is what a fault disables while it is active.
type impact int

const (
	// impactNone: no answer is late or missing.
	impactNone impact = iota
	// impactMessages: nothing that a lock needs is unavailable for longer than a node timeout. A
	// client has other connections, and the timestamps of a delayed message show the delay.
	impactMessages
	// impactAnswers: the client or node does nothing, or the link carries nothing. If a killed node
	// restarts without its keys, that does not matter here: it can vote, and forgotten keys can do
	// no more than free a lock.
	impactAnswers
	// impactAll: nobody is guaranteed anything, whatever the fault's target.
	impactAll
)

// impactByKind is the impact of each kind of fault. Kinds that are not listed have impactAll. That
// includes most clock faults, because they prolong keys and waits by an amount that the record does
// not contain. impactOf deals with clock jumps. A host stall is not a fault; it extends bounds
// (lockState.stallDelay).
var impactByKind = map[string]impact{
	history.OpStall: impactNone,
	facts.Kill:      impactAnswers, facts.Shutdown: impactAnswers, facts.PowerLoss: impactAnswers, facts.Failover: impactAnswers, // on a client or node
	facts.Pause: impactAnswers, "gc": impactAnswers, // on a client
	"slow-disk": impactAnswers, "full-disk": impactAnswers, "unplug": impactAnswers, "starve": impactAnswers, // on a node
	facts.Cut: impactAnswers, "delay": impactAnswers, "throttle": impactAnswers, "lose": impactAnswers, // on a link
	"hold": impactMessages, "drop": impactMessages, // a single message
	"touch": impactMessages, // another key
}

// impactByName maps the impacts that a record can declare for a fault.
var impactByName = map[string]impact{history.ImpactNone: impactNone, history.ImpactMessages: impactMessages, history.ImpactAnswers: impactAnswers}

// quorumSize returns how many votes the lock needs: the number in the record, or a majority.
func quorumSize(p *history.Params) int {
	if nodes := len(p.Nodes); p.Quorum <= 0 || p.Quorum > nodes {
		return nodes/2 + 1
	}
	return p.Quorum
}

// roundsBound returns how long a free and available lock may go without a grant.
func roundsBound(p *history.Params) int64 {
	return int64(p.Rounds)*int64(p.NodeTimeout+p.RetryMax) + int64(p.Slack)
}

// missingParam names a parameter that the liveness bounds need but the history does not contain. It
// returns "" if none is missing.
func missingParam(p *history.Params) string {
	switch {
	case p.TTL == 0:
		return "TTL"
	case p.NodeTimeout == 0:
		return "node timeout"
	case p.RetryMax == 0:
		return "retry delay"
	}
	return ""
}

// backwardStep records that a node's clock was set back. Keys on the node live longer by the same
// amount.
type backwardStep struct {
	spans.Span // when the clock was set back
	amount     int64
}

// backwardSteps indexes the backward steps of a node's clock. It finds the extra lifetime of a key without
// examining each step.
type backwardSteps struct {
	steps         []backwardStep  // sorted by start
	sumBefore     []int64         // for each step, the sum of all earlier steps; finally the total
	ends          []backwardStep  // sorted by end
	endSumBefore  []int64         // like sumBefore, for ends
	shiftedStarts history.MaxTree // start of each step minus its sumBefore
	mayOverflow   bool            // the sums may overflow
}

// newBackwardSteps sorts steps in place and keeps the slice.
func newBackwardSteps(steps []backwardStep) *backwardSteps {
	b := &backwardSteps{steps: steps, ends: slices.Clone(steps)}
	slices.SortStableFunc(b.steps, func(x, y backwardStep) int { return cmp.Compare(x.From, y.From) })
	slices.SortStableFunc(b.ends, func(x, y backwardStep) int { return cmp.Compare(x.To, y.To) })
	b.sumBefore, b.endSumBefore = prefixSums(b.steps), prefixSums(b.ends)
	starts := make([]int64, len(steps))
	for i, s := range b.steps {
		starts[i] = s.From - b.sumBefore[i]
		b.mayOverflow = b.mayOverflow || max(s.From, -s.From, s.amount, b.sumBefore[i+1], -b.sumBefore[i+1]) > facts.Never/8 || s.From == spans.DistantPast
	}
	b.shiftedStarts = history.NewMaxTree(starts)
	return b
}

func prefixSums(steps []backwardStep) []int64 {
	sums := make([]int64, len(steps)+1)
	for i, s := range steps {
		sums[i+1] = sums[i] + s.amount
	}
	return sums
}

// latestLapse returns the latest time at which a key that was set at an instant lapses. lapse is
// the time at which it would lapse if the clock were never set back.
func (b *backwardSteps) latestLapse(at, lapse int64) int64 {
	if lapse == facts.Never {
		return facts.Never
	}
	if b.mayOverflow {
		for _, s := range b.steps {
			if s.To >= at && s.From <= lapse {
				lapse = spans.Add(lapse, s.amount)
			}
		}
		return lapse
	}
	first := sort.Search(len(b.steps), func(i int) bool { return b.steps[i].From >= at })
	numDone := sort.Search(len(b.ends), func(i int) bool { return b.ends[i].To >= at })
	if lapse = spans.Add(lapse, b.sumBefore[first]-b.endSumBefore[numDone]); lapse == facts.Never { // add the steps in progress at that instant
		return facts.Never
	}
	nextStep := b.shiftedStarts.Next(first, lapse-b.sumBefore[first]+1) // the first step after the lapse
	return spans.Add(lapse, b.sumBefore[nextStep]-b.sumBefore[first])
}

// clockJump returns how far a fault sets a node's clock forward, or back if negative. It returns 0
// if the fault is no simple jump or the record does not contain the amount. A node that failed over
// to a replica has a different clock, so noFailover must not contain it.
func clockJump(r *facts.Facts, noFailover map[string]bool, f *facts.Fault) int64 {
	i := f.Step - 1
	if f.Kind != facts.ClockJump || i < 0 || i >= len(r.Params.Steps) || !noFailover[f.Target] {
		return 0
	}
	return int64(r.Params.Steps[i].Offset)
}

// nodesWithoutFailover returns the nodes that were never replaced by a replica.
func nodesWithoutFailover(r *facts.Facts) map[string]bool {
	noFailover := map[string]bool{}
	for _, n := range r.Params.Nodes {
		noFailover[n] = true
	}
	for _, f := range r.Faults {
		if f.Kind == facts.Failover {
			delete(noFailover, f.Target)
		}
	}
	return noFailover
}

// faultSpan returns the span during which a fault may have been active: from its first event until
// its end has certainly taken effect. The end is timestamped before it is carried out, and a node
// then takes time to start.
func faultSpan(r *facts.Facts, f *facts.Fault) spans.Span {
	s := spans.New(f.FirstEvent().T, facts.Never)
	if f.End != nil {
		s.To = f.End.T + int64(r.Params.Slack)
	}
	return s
}

// lapses computes when keys have lapsed on every node.
type lapses struct {
	life          int64                     // maximum lifetime of a key, by a correct clock
	clientLives   map[string]int64          // the same for clients with a TTL of their own
	maxLife       int64                     // the longest of these
	backwardSteps map[string]*backwardSteps // backward steps of the clocks, by node
}

// newLapses finds the backward steps in a record. A clock that was set forward is set back when the
// fault ends.
func newLapses(r *facts.Facts, noFailover map[string]bool) lapses {
	l := lapses{life: facts.Never, maxLife: facts.Never, clientLives: map[string]int64{}, backwardSteps: map[string]*backwardSteps{}}
	if r.Params.TTL != 0 {
		l.life = int64(float64(r.Params.TTL) * (1 + r.Params.Rate))
		l.maxLife = l.life
		for _, own := range r.Params.TTLs {
			l.clientLives[own.Client] = int64(float64(own.TTL) * (1 + r.Params.Rate))
			l.maxLife = max(l.maxLife, l.clientLives[own.Client])
		}
	}
	all := map[string][]backwardStep{}
	for _, f := range r.Faults {
		switch amount := clockJump(r, noFailover, f); {
		case amount < 0 && f.Begin != nil:
			all[f.Target] = append(all[f.Target], backwardStep{spans.New(f.FirstEvent().T, f.Begin.T), -amount})
		case amount < 0: // the clock may have been set back at any time
			all[f.Target] = append(all[f.Target], backwardStep{spans.New(f.FirstEvent().T, facts.Never), -amount})
		case amount > 0 && f.End != nil:
			all[f.Target] = append(all[f.Target], backwardStep{spans.New(f.End.T, faultSpan(r, f).To), amount})
		}
	}
	for node, steps := range all {
		l.backwardSteps[node] = newBackwardSteps(steps)
	}
	return l
}

// lifetime returns how long a client's keys live at most, by a correct clock. "" is an unknown client.
func (l lapses) lifetime(client string) int64 {
	if own, ok := l.clientLives[client]; ok {
		return own
	}
	if client == "" {
		return l.maxLife
	}
	return l.life
}

// latestLapse returns the latest time at which a key lapses that its client set or extended at an
// instant: TTL·(1+ρ) later, plus the amount by which its node's clock was set back in the meantime.
func (l lapses) latestLapse(client string, at int64) int64 {
	undisturbed := spans.Add(at, l.lifetime(client))
	latest := undisturbed
	for _, nodeSteps := range l.backwardSteps {
		latest = max(latest, nodeSteps.latestLapse(at, undisturbed))
	}
	return latest
}

// maxLifetime returns how long any key may have lived.
func (l lapses) maxLifetime() int64 {
	maxExtra := int64(0)
	for _, nodeSteps := range l.backwardSteps {
		maxExtra = max(maxExtra, nodeSteps.sumBefore[len(nodeSteps.steps)])
	}
	return spans.Add(l.maxLife, maxExtra)
}
