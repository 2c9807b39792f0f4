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

// vacuousReason says which necessary event a run does not contain, or returns "" if none is
// missing. A run that proves nothing must not pass.
func vacuousReason(r *facts.Facts) string {
	if len(r.UnsupportedCommands) > 0 { // Redis would have answered differently
		return fmt.Sprintf("the simulated %s does not support %s; run it with --backend process", r.UnsupportedCommands[0].Node, r.UnsupportedCommands[0].Value)
	}
	for _, c := range r.Params.Clients {
		if !r.StartedClients[c] {
			return c + " never started"
		}
	}
	u := newUsage(r)
	for _, s := range r.Params.Steps {
		if reason := missedStepReason(u, s); reason != "" {
			return fmt.Sprintf("step %d (%s) %s", s.Step, describeStep(s), reason)
		}
	}
	if !r.Params.MayBeIdle && r.Grants == 0 {
		return "nobody acquired a lock"
	}
	return ""
}

// missedStepReason says why a planned step did not affect all of its targets, or returns "" if it
// did.
func missedStepReason(r *usage, s history.PlannedStep) string {
	var activeTargets []string
	tried, effective, reason := false, s.Optional, ""
	for _, f := range r.steps[s.Step] {
		tried = true
		if f.Fail != nil {
			return fmt.Sprintf("failed on %s: %s", f.Target, f.Fail.Cause)
		}
		if f.Begin != nil {
			activeTargets = append(activeTargets, f.Target)
			if !effective {
				stepReason := noEffectReason(r, s, f)
				effective, reason = stepReason == "", cmp.Or(reason, stepReason)
			}
		}
	}
	switch {
	case !tried && s.Optional:
		return ""
	case !tried:
		return "never started: its trigger did not occur"
	case len(activeTargets) == 0:
		return "had no confirmed effect"
	}
	isCovered := coveredTargets(s.Targets, activeTargets)
	for _, t := range s.Targets {
		if !isCovered[t] {
			return "had no confirmed effect on " + t
		}
	}
	if !effective {
		return "hit nothing: " + reason
	}
	return ""
}

// coveredTargets returns the planned targets that were hit, directly or through one of their links.
// A target that is not known until the step starts, such as the holder, matches any process.
func coveredTargets(targets, activeTargets []string) map[string]bool {
	covered := map[string]bool{"holder": true}
	targetLengths := map[int]bool{} // lengths of the targets' names: shorter strings need no lookup
	for _, t := range targets {
		targetLengths[len(t)] = true
	}
	add := func(name string) {
		if targetLengths[len(name)] {
			covered[name] = true
		}
	}
	for _, target := range activeTargets {
		add(target)
		for i := range len(target) {
			if target[i] == '-' {
				add(target[:i])
				add(target[i+1:])
			}
		}
	}
	return covered
}

func describeStep(s history.PlannedStep) string {
	text := s.Fault
	if len(s.Targets) > 0 {
		text += " " + strings.Join(s.Targets, ", ")
	}
	if s.Trigger != "" {
		text += ", when: " + s.Trigger
	}
	return text
}

// noEffectReason says why an active fault had no effect according to its step's proof, or returns
// "" if it had an effect.
func noEffectReason(r *usage, s history.PlannedStep, f *facts.Fault) string {
	p := s.Proof
	if p == nil {
		return ""
	}
	switch {
	case p.IdleText != "" && strings.Contains(f.Begin.Cause, p.IdleText):
		return p.IdleText
	case p.NeedsPersistence && r.Params.Persistence == "none":
		return "the nodes keep nothing on disk"
	case p.MinOffset > 0 && clockOffset(r, s, f) < p.MinOffset:
		return fmt.Sprintf("the clock of %s was wrong by less than %v", f.Target, p.MinOffset)
	}
	from, to, isLink := strings.Cut(f.Target, "-")
	switch {
	case isLink && to != history.Replica && downThroughout(r, to, f):
		return to + " was down the whole time"
	case isLink && to == history.Replica && downThroughout(r, from, f), !isLink && downThroughout(r, f.Target, f):
		return from + " was down the whole time"
	}
	return unusedReason(r, p, f)
}

// clockOffset returns how far a fault changed a clock while the fault was active. If another fault
// already affects the same clock, the new fault always counts as effective, because it may correct
// the clock.
func clockOffset(r *usage, s history.PlannedStep, f *facts.Fault) time.Duration {
	offset := s.Offset.Abs()
	if s.Rate != 0 {
		offset = time.Duration(max(s.Rate-1, 1-s.Rate) * float64(faultSpan(r.Facts, f).Length()))
	}
	if r.clocks[f.Target].LatestEnd(f.Begin.T-1) > f.Begin.T {
		return facts.Never
	}
	return offset
}

func faultSpan(r *facts.Facts, f *facts.Fault) spans.Span {
	s := spans.New(f.FirstEvent().T, max(r.End, f.Begin.T))
	if f.End != nil {
		s.To = f.End.T
	}
	return s
}

// downThroughout reports whether a node was already down when a fault on the node or its link
// began, and stayed down until the fault ended.
func downThroughout(r *usage, node string, f *facts.Fault) bool {
	// The end of a fault undoes a jump, but not the offset that a wrong rate caused.
	offsetStays := f.Kind == "clock-rate" || f.Kind == "clock-slew"
	d := r.downtimes[node].longestBegun(f)
	switch {
	case d == nil:
		return false
	case d.End == nil:
		return true
	}
	return f.End != nil && !offsetStays && d.End.T > f.Begin.T && f.End.T <= d.End.T
}

// unusedReason explains that no lock used a fault's target while the fault was active. It returns
// "" if a lock did.
func unusedReason(r *usage, p *history.Proof, f *facts.Fault) string {
	span := faultSpan(r.Facts, f)
	node, use := f.Target, history.TargetNode
	from, to, isLink := strings.Cut(f.Target, "-")
	switch {
	case r.clients[f.Target]:
		use = history.TargetClient
	case isLink && to == history.Replica:
		node, use = from, history.TargetLink
	case isLink:
		node, use = to, history.TargetLink
	}
	switch {
	case !slices.Contains(p.Targets, use):
		return ""
	case use != history.TargetClient && len(r.LockCommands) == 0 && slices.ContainsFunc(r.Params.Clients, func(c string) bool { return r.sessionSpans()[c].Meets(span) }):
		return "" // the record contains no commands
	case use == history.TargetClient:
		if !r.sessionSpans()[f.Target].Meets(span) {
			return f.Target + " neither wanted nor held a lock in the meantime"
		}
	case use == history.TargetNode:
		if !r.commandSpans(commandKind{node: node}).Meets(span) && !r.keySpans(node).Meets(spans.New(span.From, span.From)) && !hadGrantCounts(r, f) &&
			(p.MinOffset > 0 || !wasWanted(r, "", node, span)) {
			return node + " received no request in the meantime and had no lock's key"
		}
	case to == history.Replica:
		if !r.commandSpans(commandKind{node: node, granted: true}).Meets(span) {
			return node + " had nothing to replicate in the meantime"
		}
	case !r.commandSpans(commandKind{process: f.Target}).Meets(span) && !wasWanted(r, from, node, span):
		return f.Target + " carried no traffic in the meantime"
	}
	return ""
}

// hadGrantCounts reports whether a node had counted grants since it last lost its memory, if the
// fault terminates the node. Fencing tokens are derived from these counts, which outlive all keys.
func hadGrantCounts(r *usage, f *facts.Fault) bool {
	if !terminatesNode(f) {
		return false
	}
	lossTime := int64(spans.DistantPast)
	if lastOutage := r.downtimes[f.Target].longestBegun(f); lastOutage != nil && r.Params.Persistence == "none" {
		lossTime = lastOutage.Begin.T
	}
	return slices.ContainsFunc(r.LockCommands, func(e *history.Event) bool {
		return e.Op == history.OpSet && e.Fence > 0 && e.Node == f.Target && facts.AppliedAt(e) > lossTime && facts.AppliedAt(e) < f.Begin.T
	})
}

// wasWanted reports whether a client, or any client if client is "", must have tried to reach a
// node during a span even if no command was recorded there, for example because no connection could
// be opened. A client sends requests when it calls an operation, and retries within a round while
// it waits. If a node never received a request although others did, the lock does not use it.
func wasWanted(r *usage, client, node string, span spans.Span) bool {
	onResource := node == r.Params.Resource
	if !onResource && len(r.LockCommands) > 0 && len(r.commandSpans(commandKind{node: node}).Spans) == 0 && !spans.Covers([]spans.Span{span}, spans.New(r.FirstClientTime, r.LastClientTime)) {
		return false
	}
	round := int64(r.Params.NodeTimeout + r.Params.RetryMax)
	operations := r.operationSpans(operationKind{client: client, allClients: client == "", onResource: onResource})
	numBefore := operations.CountStarted(span.From - 1)
	return operations.CountStarted(span.To) > numBefore || numBefore > 0 && min(operations.LatestEnd(span.From-1), r.End, span.To)-span.From > round
}

// stallEffects determines what host stalls may have delayed.
type stallEffects struct {
	r            *facts.Facts
	stalls       []spans.Span
	beliefEnds   []int64 // sorted
	nemesisTimes []int64 // when the nemesis acted, sorted
}

func newStallEffects(r *facts.Facts) stallEffects {
	l := stallEffects{r: r, stalls: spans.Stalls(r)}
	if len(l.stalls) == 0 {
		return l
	}
	for s := range r.Sessions() {
		for b := range r.Windows(s) {
			l.beliefEnds = append(l.beliefEnds, b.To)
		}
	}
	for _, f := range r.Faults {
		if f.Kind == history.OpStall {
			continue
		}
		for _, e := range []*history.Event{f.Invoke, f.Begin, f.End} {
			if e != nil {
				l.nemesisTimes = append(l.nemesisTimes, e.T)
			}
		}
	}
	slices.Sort(l.beliefEnds)
	slices.Sort(l.nemesisTimes)
	return l
}

// addStall adds to a result the longest host stall that may have prevented a violation or changed
// its cause. A stall matters if it overlaps the violation's witness, or if it delayed something
// anywhere in the run:
//
//	▒▒▒ stall ▒▒▒
//	       |  a holder's deadline: the holder could not act before it
//	              |  a planned step due in the stall: it starts right after the stall
//
// A stall that delayed nothing is no excuse.
func (l stallEffects) addStall(res verdict.Result) verdict.Result {
	if len(l.stalls) == 0 {
		return res
	}
	witness := witnessSpan(l.r, res.Witness)
	for _, s := range l.stalls {
		if witness.From < s.To && s.From < witness.To || l.affectedBy(s) {
			res.Stalled = max(res.Stalled, history.Seconds(s.Length()))
		}
	}
	return res
}

// affectedBy reports whether a belief ended during a stall or the stall delayed the plan.
func (l stallEffects) affectedBy(stall spans.Span) bool {
	return anyWithin(l.beliefEnds, stall) || anyWithin(l.nemesisTimes, spans.New(stall.From, stall.To+int64(l.r.Params.Slack)))
}

// anyWithin reports whether any of the sorted instants lies strictly within a span.
func anyWithin(instants []int64, s spans.Span) bool {
	i := spans.CountUpTo(instants, s.From)
	return i < len(instants) && instants[i] < s.To
}

// witnessSpan returns the span that covers a witness and all its events.
func witnessSpan(r *facts.Facts, w *verdict.Witness) spans.Span {
	if w == nil {
		return spans.New(facts.Never, spans.DistantPast)
	}
	span := spans.New(w.From, w.To)
	inWitness := map[int64]bool{}
	for _, n := range w.Events {
		inWitness[n] = true
	}
	for i := range r.Events {
		if e := &r.Events[i]; inWitness[e.N] {
			span.From, span.To = min(span.From, e.T), max(span.To, e.T)
		}
	}
	return span
}

// maxUnplanned is the largest number of unplanned faults that are listed one by one.
const maxUnplanned = 3

// unplannedFaults describes the unplanned faults of a run. A run hit by an unplanned fault proves
// nothing: neither that a lock survives the plan's faults nor that they break it. Host stalls are
// exempt: they affect all processes alike, and are so frequent that each property allows for them.
func unplannedFaults(r *facts.Facts) (text string, found bool) {
	var all []string
	for _, f := range r.Faults {
		if f.Step != history.UnplannedStep || f.Begin == nil {
			continue
		}
		verb := cmp.Or(unplannedVerbs[f.Kind], "was hit by "+f.Kind)
		text := fmt.Sprintf("%s %s at %s", f.Target, verb, facts.Seconds(f.Begin.T))
		if f.Begin.Cause != "" {
			text += " (" + f.Begin.Cause + ")"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "", false
	}
	if numOmitted := len(all) - maxUnplanned; numOmitted > 0 {
		all = append(all[:maxUnplanned:maxUnplanned], fmt.Sprintf("and %d more", numOmitted))
	}
	return "unplanned: " + strings.Join(all, "; "), true
}

var unplannedVerbs = map[string]string{
	facts.Kill: "ended", facts.Pause: "was stopped", history.OpContinue: "continued",
}

// downtimes lists the faults that took a node down, ordered by their start. For each prefix of the
// list it stores the faults that ended last and second to last.
type downtimes struct {
	starts                 []int64
	longest, secondLongest []*facts.Fault
}

// longestBegun returns the fault that ended last among those that had started when f started,
// excluding f itself. It returns nil if there is none.
func (d *downtimes) longestBegun(f *facts.Fault) *facts.Fault {
	if d == nil {
		return nil
	}
	i := spans.CountUpTo(d.starts, f.Begin.T)
	switch {
	case i == 0:
		return nil
	case d.longest[i-1] == f:
		return d.secondLongest[i-1]
	}
	return d.longest[i-1]
}

// add appends a fault. Faults must be added in the order in which they start.
func (d *downtimes) add(f *facts.Fault) {
	longest, second := f, (*facts.Fault)(nil)
	if i := len(d.starts) - 1; i >= 0 {
		longest, second = d.longest[i], d.secondLongest[i]
		switch {
		case f.To() > longest.To():
			longest, second = f, longest
		case second == nil || f.To() > second.To():
			second = f
		}
	}
	d.starts, d.longest, d.secondLongest = append(d.starts, f.Begin.T), append(d.longest, longest), append(d.secondLongest, second)
}

// usage indexes when the lock used which process, so that the effect of each step can be looked up.
// The large indexes are built on first use.
type usage struct {
	*facts.Facts
	clients   map[string]bool         // the run's clients
	steps     map[int][]*facts.Fault  // faults by step
	clocks    map[string]spans.Spread // by process: active clock faults
	downtimes map[string]*downtimes   // by node

	sessions         map[string]spans.Spread // by client
	commandsByKind   map[commandKind]spans.Spread
	keys             map[string]spans.Spread // by node
	operationsByKind map[operationKind]spans.Spread
}

func newUsage(r *facts.Facts) *usage {
	u := &usage{Facts: r, clients: map[string]bool{}, steps: map[int][]*facts.Fault{}, downtimes: map[string]*downtimes{}, operationsByKind: map[operationKind]spans.Spread{}}
	for _, c := range r.Params.Clients {
		u.clients[c] = true
	}
	clockSpans := map[string][]spans.Span{}
	var outages []*facts.Fault
	for _, f := range r.Faults {
		u.steps[f.Step] = append(u.steps[f.Step], f)
		switch {
		case f.Begin == nil:
		case f.ChangesClock():
			clockSpans[f.Target] = append(clockSpans[f.Target], spans.New(f.Begin.T, f.To()))
		case terminatesNode(f):
			outages = append(outages, f)
		}
	}
	u.clocks = spreadsBy(clockSpans)
	slices.SortStableFunc(outages, func(a, b *facts.Fault) int { return cmp.Compare(a.Begin.T, b.Begin.T) })
	for _, f := range outages {
		if u.downtimes[f.Target] == nil {
			u.downtimes[f.Target] = &downtimes{}
		}
		u.downtimes[f.Target].add(f)
	}
	return u
}

// terminatesNode reports whether a fault terminates the process it hits.
func terminatesNode(f *facts.Fault) bool {
	return f.Kind == facts.Kill || f.Kind == facts.Shutdown || f.Kind == facts.PowerLoss
}

// commandKind selects the commands on a link (process) or on a node.
type commandKind struct {
	process, node string
	granted       bool
}

// operationKind selects the operations of one client or of all clients, either on the lock or on
// the resource.
type operationKind struct {
	client     string
	allClients bool
	onResource bool
}

// spreadsBy builds a Spread for each key of a map.
func spreadsBy[K comparable](spansByKey map[K][]spans.Span) map[K]spans.Spread {
	all := map[K]spans.Spread{}
	for k, list := range spansByKey {
		all[k] = spans.NewSpread(list)
	}
	return all
}

// sessionSpans returns the spans during which each client wanted or held a lock.
func (r *usage) sessionSpans() map[string]spans.Spread {
	if r.sessions == nil {
		spansByClient := map[string][]spans.Span{}
		for s := range r.Sessions() {
			spansByClient[s.Client()] = append(spansByClient[s.Client()], sessionSpan(r.Facts, s))
		}
		r.sessions = spreadsBy(spansByClient)
	}
	return r.sessions
}

// sessionSpan returns the span from a session's call to its last operation.
func sessionSpan(r *facts.Facts, s *facts.Session) spans.Span {
	to := spans.Wait(r, s).To
	for a := range s.Actions() {
		if to = max(to, a.Call.T); a.Return == nil {
			to = facts.Never
		} else {
			to = max(to, a.Return.T)
		}
	}
	return spans.New(s.Acquire.Call.T, to)
}

// commandSpans returns the spans during which commands of a kind were in flight.
func (r *usage) commandSpans(c commandKind) spans.Spread {
	if r.commandsByKind == nil {
		spansByKind := map[commandKind][]spans.Span{}
		for _, e := range r.LockCommands {
			span := spans.New(e.SentAt, max(e.T, e.AppliedAt, e.AnsweredAt))
			spansByKind[commandKind{process: e.Process}] = append(spansByKind[commandKind{process: e.Process}], span)
			spansByKind[commandKind{node: e.Node}] = append(spansByKind[commandKind{node: e.Node}], span)
			if e.Type == history.OK {
				grantedKind := commandKind{node: e.Node, granted: true}
				spansByKind[grantedKind] = append(spansByKind[grantedKind], span)
			}
		}
		r.commandsByKind = spreadsBy(spansByKind)
	}
	return r.commandsByKind[c]
}

// keySpans returns the spans during which a node had a lock's key: it had been set or extended less
// than its TTL before and not deleted since.
func (r *usage) keySpans(node string) spans.Spread {
	if r.keys == nil {
		type nodeKey struct{ node, key string }
		spansByNode := map[string][]spans.Span{}
		deletionTimes := map[nodeKey]int64{} // by a release recorded after the command
		for i := len(r.LockCommands) - 1; i >= 0; i-- {
			e := r.LockCommands[i]
			p, at := nodeKey{e.Node, e.Key}, facts.AppliedAt(e)
			end, ok := deletionTimes[p]
			switch {
			case e.Type != history.OK:
			case e.Op == history.OpRelease && (!ok || at < end):
				deletionTimes[p] = at
			case e.Op == history.OpRelease:
			default:
				lifetime := spans.New(at, at+cmp.Or(e.TTL, int64(r.Params.TTLOf(facts.Sender(e)).TTL)))
				if ok {
					lifetime.To = min(lifetime.To, end-1)
				}
				if lifetime.From <= lifetime.To {
					spansByNode[e.Node] = append(spansByNode[e.Node], lifetime)
				}
			}
		}
		r.keys = spreadsBy(spansByNode)
	}
	return r.keys[node]
}

// operationSpans returns the spans during which operations of a kind were in progress.
func (r *usage) operationSpans(d operationKind) spans.Spread {
	if _, ok := r.operationsByKind[operationKind{allClients: d.allClients}]; !ok {
		spansByKind := map[operationKind][]spans.Span{{allClients: d.allClients}: nil}
		for s := range r.Sessions() {
			k := operationKind{client: s.Client()}
			if d.allClients {
				k = operationKind{allClients: true}
			}
			spansByKind[k] = append(spansByKind[k], spans.New(s.Acquire.Call.T, s.Acquire.ReturnedAt()))
			for a := range s.Actions() {
				if a.Call.Op != history.OpCheck {
					k.onResource = a.Call.Op == history.OpRead || a.Call.Op == history.OpWrite
					spansByKind[k] = append(spansByKind[k], spans.New(a.Call.T, a.ReturnedAt()))
				}
			}
		}
		for k, list := range spansByKind {
			r.operationsByKind[k] = spans.NewSpread(list)
		}
	}
	return r.operationsByKind[d]
}
