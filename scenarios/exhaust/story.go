package exhaust

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/client"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
	"lockpick/redlock"
	"lockpick/scenarios/outcome"
)

// errUntimed means that no times can be assigned to a path, so the search goes on to other paths.
var errUntimed = errors.New("no times satisfy the path")

// Settings of the generated scenarios.
const (
	leaseTTL    = 10 * time.Second
	leaseDrift  = 0.01
	nodeTimeout = 2 * time.Second
	retryDelay  = 50 * time.Millisecond
	minOverlap  = time.Second // minimum time that both clients consider themselves the holder
)

// pace sets the minimum times between ordered events. They are longer than any operation that the
// network does not delay.
type pace struct {
	gap         time.Duration
	restartTime time.Duration // from a crash until the node answers again
	syncTime    time.Duration // from a change until it is certainly on disk
	scale       float64       // factor that makes the gap 0.1 s on real servers; 0 if they can't keep events so close together in order
}

// paces lists the paces to try, longest gaps first.
var paces = []pace{realPace(8), realPace(4), realPace(2), realPace(1), {gap: 50 * time.Millisecond, restartTime: 50 * time.Millisecond, syncTime: 3 * time.Second}}

// realPace returns a pace for real servers and clients. Its gaps are a multiple of the shortest
// ones that keep events in order.
func realPace(times int) pace {
	scaled := func(d time.Duration) time.Duration { return d * time.Duration(times) }
	return pace{scaled(100 * time.Millisecond), scaled(400 * time.Millisecond), scaled(3 * time.Second), 1 / float64(times)}
}

// beliefWindow returns how long a client may consider itself the holder, counted from the start of
// its attempt.
func beliefWindow() time.Duration { return leaseTTL - redlock.Drift(leaseTTL, leaseDrift) }

// Times that several steps depend on, in the order to try. holdTimes is how long a client holds a
// lock before it releases it, and extendDelays is how long it waits before it extends the lock.
var (
	holdTimes    = []time.Duration{1500 * time.Millisecond, 7500 * time.Millisecond}
	extendDelays = []time.Duration{time.Second, 3 * time.Second, 5 * time.Second, 7 * time.Second}
)

// newScenario turns a path into a scenario that expects a violation of the scope's property. known
// holds the names that a scenario file may use. If no times can be assigned to the path, the error
// is errUntimed.
func newScenario(name string, scope Scope, path []Step, known scenario.KnownNames) (scenario.Scenario, error) {
	for _, p := range paces {
		for _, section := range holdTimes {
			for _, after := range extendDelays[:1+scope.Extensions*(len(extendDelays)-1)] {
				t := &timedPath{scope: scope, path: path, pace: p, extendDelay: after, holdLength: section}
				if err := t.readPath(); err != nil {
					return scenario.Scenario{}, err
				}
				if (ordering{t}).addAll(); t.solve() {
					return planner{t}.scenario(name, known)
				}
			}
		}
	}
	return scenario.Scenario{}, fmt.Errorf("%w: a client or a request would have to be later than possible", errUntimed)
}

// timedPath is a path and the times of its steps.
type timedPath struct {
	instants
	pace
	scope       Scope
	path        []Step
	holdLength  time.Duration // how long a client holds a lock that it does not extend
	extendDelay time.Duration // from the grant to the extension
	attempts    [2][]*attempt
	stepTimes   []instant // one for each step
	faults      []timedFault
}

// ordering adds constraints to a timed path.
type ordering struct{ *timedPath }

// planner turns a solved timed path into a scenario.
type planner struct{ *timedPath }

// timedFault is a crash or a clock jump.
type timedFault struct {
	Step
	at         instant
	stallStart instant // when syncing stops, with fsync everysec
}

// attempt is a client's attempt and the hold that may follow it.
type attempt struct {
	start, end                  instant // when the client sends the SETs, and when it decides
	won, late                   bool    // late means that the client decides after its window
	pauseStart                  instant // if late, when the client is paused: after its round
	extendStart                 instant // when the extension starts
	extends                     bool
	extendEnd                   instant          // when the extension ends
	extendSucceeded, extendLost bool             // the extension succeeded, or a majority refused it
	releaseTime                 instant          // when the DELs are sent
	ended                       bool             // whether the attempt failed or the hold ended, so that the DELs are sent
	set, ext, del               map[int]delivery // by node

	decidingNode int // the node with the deciding vote, for the hardened lock

	fenced                       bool         // whether the token comes from grant counts
	countsReceived, laggingNodes uint8        // bit sets of nodes
	raises                       []tokenWrite // where the token is written back
	writeTime                    instant      // when the write is sent, with resourceSafety
	write                        *delivery
	refused                      bool // whether the read is refused, so that there is no write
	endedWindows                 int  // number of ended windows
}

// tokenWrite is the arrival at a node of a token that a client writes back.
type tokenWrite struct {
	node int
	at   instant
}

// delivery is a message's arrival.
type delivery struct {
	at      instant
	granted bool
	inTime  bool // whether it arrives before its round ends
}

// scenarioHead is the format of the parts that all generated scenarios share.
const scenarioHead = `name: %s
claim: %s
source: a search of all orders of messages and faults in a small scope (lockpick model-check)
topology: {nodes: %d, persistence: %s}
lock: {kind: %s, ttl: %v, drift: 1%%, timeout: %v, retry: %v, tries: %d, fence: %v}
clients: 2
workload: {kind: read-modify-write, keys: 1, fence: %s, think: 0s, cycles: 1}
expect: {mutual-exclusion: any, resource-safety: any}
`

// claims holds the claims of the scenarios that violate each property.
var claims = map[Property]string{
	MutualExclusion: "Two clients hold the lock at the same time.",
	resourceSafety:  "A write overwrites another that its client has not seen.",
	fencingOrder:    "A fencing token is not higher than an earlier one.",
}

func (t planner) scenario(name string, known scenario.KnownNames) (scenario.Scenario, error) {
	kind := "redlock"
	switch {
	case t.scope.Mistake != "":
		kind = "broken, mistake: " + t.scope.Mistake
	case t.scope.Quarantine:
		kind = hardenedLock + ", options: {quarantine: yes}"
	case t.scope.Lock != "":
		kind = t.scope.Lock
	}
	persistence := scenario.PersistNone
	switch t.scope.Restart {
	case RestartAlways, restartEverySec:
		persistence = string(t.scope.Restart)
	}
	property, fence := cmp.Or(t.scope.Property, MutualExclusion), "none"
	if t.scope.Fence {
		fence = "token"
	}
	text := fmt.Sprintf(scenarioHead, name, claims[property], t.scope.Nodes, persistence, kind, leaseTTL, nodeTimeout, retryDelay, t.scope.Attempts, t.scope.Fence, fence)
	all, err := scenario.Parse(name, []byte(text), known)
	if err != nil {
		return scenario.Scenario{}, err
	}
	s := all[0]
	clients := s.Clients
	s.Clients = nil
	for c := range t.attempts {
		if len(t.attempts[c]) > 0 {
			t.setClient(c, &clients[c])
			s.Clients = append(s.Clients, clients[c])
		}
	}
	if t.anyExtends() {
		s.Workload.Extend, s.Lock.Extends = t.extendDelay, 1
	}
	s.Plan, s.Scale, s.Exact = t.plan(), t.scale, t.scale == 0
	s.Limit = max(s.Limit, t.afterRun()+time.Minute)
	s.Expect = map[string]scenario.Expectation{verdict.MutualExclusion: {Want: outcome.AnyOutcome}, verdict.ResourceSafety: {Want: outcome.AnyOutcome}}
	if t.scope.Fence {
		s.Expect[verdict.FencingOrder] = scenario.Expectation{Want: outcome.AnyOutcome}
	}
	s.Expect[string(property)] = scenario.Expectation{Want: string(verdict.Violated)}
	scenario.AddImplied(s.Expect, s.Tier)
	return s, nil
}

func (t planner) anyExtends() bool {
	return t.extends(0) || t.extends(1)
}

// setClient sets when a client starts, how often it acquires the lock, and how long it holds the
// lock.
func (t planner) setClient(c int, k *scenario.Client) {
	k.Delay = t.times[t.attempts[c][0].start]
	hold := t.hold(c)
	k.Hold = &client.Range{Min: hold, Max: hold}
	cycles := 1 // one more for each hold followed by another attempt
	for _, a := range t.attempts[c][:len(t.attempts[c])-1] {
		if a.won {
			cycles++
		}
	}
	k.Cycles = &cycles
}

// hold returns how long a client holds the lock. If the path ends in an overlap, that is long
// enough for both holds to overlap.
func (t planner) hold(c int) time.Duration {
	if t.hasFixedHold(c) {
		return t.holdTime(c)
	}
	own, other := t.times[t.lastAttempt(c).end], t.times[t.lastAttempt(1-c).end]
	if own >= other {
		return minOverlap / 2
	}
	return other - own + minOverlap*3/4
}

// afterRun returns a time after everything in the run.
func (t planner) afterRun() time.Duration {
	return (slices.Max(t.times) + 30*time.Second).Round(time.Second)
}

// plan returns a plan with the path's faults, and with a delay for each message that makes it
// arrive as in the path, or never.
func (t planner) plan() nemesis.Plan {
	var out nemesis.Plan
	for _, f := range t.faults {
		out = append(out, t.fault(f)...)
	}
	for c := range t.attempts {
		numReleases, numExtensions, numWrites := 0, 0, 0
		for n, a := range t.attempts[c] {
			if a.late {
				name := fmt.Sprintf("c%d", c+1)
				out = append(out, nemesis.Step{
					When:  nemesis.Trigger{Point: &nemesis.OnPoint{Client: name, Point: client.DuringAcquire, Nth: n + 1}},
					Fault: nemesis.Fault{Kind: "pause", Targets: []string{name}, For: new(t.times[a.end] - t.times[a.pauseStart])},
				})
			}
			out = append(out, t.messages(c, "set", n+1, a.start, t.acquireRound(a))...)
			if t.willExtend(c, n) {
				numExtensions++
				out = append(out, t.messages(c, "extend", numExtensions, a.extendStart, newRound(t.scope.Nodes, a.ext, a.extendSucceeded, a.extendLost))...)
			}
			if a.ended {
				numReleases++
				out = append(out, t.messages(c, "release", numReleases, a.releaseTime, newRound(t.scope.Nodes, a.del, false, false))...)
			}
			if t.scope.Property == resourceSafety && a.won && !a.refused {
				numWrites++
				out = append(out, t.delayedWrite(c, numWrites, a))
			}
		}
		out = append(out, t.extraAttempts(c)...)
	}
	return out
}

// delayedWrite returns a step that delays a write until it arrives as in the path, or forever.
func (t planner) delayedWrite(c, nth int, a *attempt) nemesis.Step {
	delayTime := t.afterRun()
	if a.write != nil {
		delayTime = t.times[a.write.at] - t.times[a.writeTime]
	}
	return delay(c, scenario.ResourceName, "write", nemesis.Request, nth, delayTime)
}

// delay returns a step that delays a message on a client's link by d.
func delay(c int, peer, kind, direction string, nth int, d time.Duration) nemesis.Step {
	return nemesis.Step{
		When:  nemesis.Trigger{Message: &nemesis.OnMessage{Link: fmt.Sprintf("c%d-%s", c+1, peer), Message: kind, Of: direction, Nth: nth}},
		Fault: nemesis.Fault{Kind: nemesis.Hold, For: &d},
	}
}

// extraAttempts returns steps that make a client's further attempts fail. A client makes further
// attempts if its last attempt in the path fails.
func (t planner) extraAttempts(c int) (out nemesis.Plan) {
	failed := 0
	for _, a := range t.attempts[c] {
		if failed++; a.won {
			failed = 0
		}
	}
	for n := range max(t.scope.Attempts-failed, 0) {
		if failed == 0 {
			break
		}
		out = append(out, t.messages(c, "set", len(t.attempts[c])+1+n, 0, round{nodes: t.scope.Nodes})...)
	}
	return out
}

// willExtend reports whether the client extends its lock in a hold. It does so even without an
// extension in the path if the hold lasts long enough.
func (t planner) willExtend(c, n int) bool {
	a := t.attempts[c][n]
	return a.won && t.anyExtends() && (a.extends || t.hold(c) >= t.extendDelay)
}

// messages returns steps for a client's nth round of messages of a kind. They make messages arrive
// as in the path, or never if they do not arrive there. They also delay replies that must come too
// late or last.
func (t planner) messages(c int, kind string, nth int, sent instant, r round) (out nemesis.Plan) {
	holdBack := func(node int, direction string, nth int, d time.Duration) {
		out = append(out, delay(c, fmt.Sprintf("n%d", node), kind, direction, nth, d))
	}
	for node := 1; node <= r.nodes; node++ {
		d, arrives := r.arrivals[node]
		if !arrives {
			holdBack(node, nemesis.Request, nth, t.afterRun())
			out[len(out)-1].When.Before = t.afterRun() // a crash may reset the connection, so that the message is never sent
			continue
		}
		travelTime := t.times[d.at] - t.times[sent]
		switch holdBack(node, nemesis.Request, nth, travelTime); {
		case slices.Contains(r.lateReplies, node):
			holdBack(node, nemesis.Reply, t.replyOrdinal(c, kind, node, d), t.afterRun())
		case node == r.lastReply:
			holdBack(node, nemesis.Reply, t.replyOrdinal(c, kind, node, d), t.duration(r)-travelTime)
		}
	}
	return out
}

// replyOrdinal returns the ordinal of the reply to a message among a node's replies to a client's
// messages of the same kind. Replies are numbered in the order that the messages arrive. A message
// that never arrives has no reply.
func (t planner) replyOrdinal(c int, kind string, node int, message delivery) int {
	nth := 1
	for _, a := range t.attempts[c] {
		all := map[string]map[int]delivery{"set": a.set, "extend": a.ext, "release": a.del}[kind]
		if d, arrives := all[node]; arrives && t.times[d.at] < t.times[message.at] {
			nth++
		}
	}
	return nth
}

func (t planner) fault(f timedFault) nemesis.Plan {
	targets := []string{fmt.Sprintf("n%d", f.Node)}
	step := nemesis.Step{When: t.trigger(f, t.times[f.at]), Fault: nemesis.Fault{Kind: "kill", Targets: targets, For: new(10 * time.Millisecond)}}
	switch {
	case f.Action == clockJumped:
		step.Fault = nemesis.Fault{Kind: "clock-jump", Targets: targets, By: leaseTTL + time.Second}
	case t.scope.Restart == RestartDelayed:
		step.Fault.For = new(downTime)
	case t.scope.Restart == restartEverySec:
		step.Fault.Kind, step.Fault.Mode = "power-loss", nemesis.CleanPowerLoss
		stall := nemesis.Fault{Kind: "slow-disk", Targets: targets, For: new(t.times[f.at] - t.times[f.stallStart] + t.gap)}
		return nemesis.Plan{{When: t.trigger(f, t.times[f.stallStart]), Fault: stall}, step}
	}
	return nemesis.Plan{step}
}

// trigger returns a trigger for a fault, or its disk stall, at a given time. A client process takes
// a while to start, so the trigger is relative to the acquire that sent the last message to reach
// the node before the fault. If that acquire has not started by the given time, the trigger is
// absolute.
func (t planner) trigger(f timedFault, when time.Duration) nemesis.Trigger {
	for i, s := range slices.Backward(t.path) {
		if s.Node != f.Node || s.Client == 0 || t.times[t.stepTimes[i]] > t.times[f.at] {
			continue
		}
		nth, first := 1, 0 // the acquire's ordinal and first attempt
		for n, a := range t.attempts[s.Client-1][:s.Attempt-1] {
			if a.won {
				nth, first = nth+1, n+1
			}
		}
		acquireStart := t.times[t.attempts[s.Client-1][first].start]
		if when < acquireStart {
			break
		}
		return nemesis.Trigger{Event: &nemesis.Event{Client: fmt.Sprintf("c%d", s.Client), Event: "acquiring", Nth: nth, After: when - acquireStart}}
	}
	return nemesis.Trigger{At: &when}
}

// caption describes a path, one step per line.
func caption(path []Step) string {
	var b strings.Builder
	for i, s := range path {
		fmt.Fprintf(&b, "%3d  %v\n", i+1, s)
	}
	return b.String()
}

// instant is a time to be determined: an index into instants.times.
type instant int

// instants is a set of times with difference constraints between them.
type instants struct {
	times       []time.Duration
	constraints []constraint
}

// constraint requires to to be at least min after from. If min is negative, to may be up to -min
// before from.
type constraint struct {
	from, to instant
	min      time.Duration
}

func (s *instants) newInstant() instant {
	s.times = append(s.times, 0)
	return instant(len(s.times) - 1)
}

func (s *instants) atLeast(from, to instant, d time.Duration) {
	s.constraints = append(s.constraints, constraint{from, to, d})
}

func (s *instants) atMost(from, to instant, d time.Duration) { s.atLeast(to, from, -d) }

func (s *instants) exact(from, to instant, d time.Duration) {
	s.atLeast(from, to, d)
	s.atMost(from, to, d)
}

// solve finds the earliest nonnegative times that satisfy the constraints, or returns false if
// there are none. The times are the lengths of longest paths through the constraints, computed with
// the Bellman–Ford algorithm.
func (s *instants) solve() bool {
	clear(s.times)
	for range len(s.times) + 1 {
		changed := false
		for _, l := range s.constraints {
			if t := s.times[l.from] + l.min; s.times[l.to] < t {
				s.times[l.to], changed = t, true
			}
		}
		if !changed {
			return true
		}
	}
	return false
}

// round is a round of messages. It determines which replies the client receives in time, so that it
// decides as in the path.
type round struct {
	nodes        int
	arrivals     map[int]delivery // by node
	lateReplies  []int            // nodes whose messages arrive in time but whose replies must not
	lastReply    int              // the node whose reply arrives last if the client needs all replies; otherwise 0
	decidingNode int              // the node whose vote ends the round of the hardened lock; 0 if the client waits for all replies
}

// acquireRound returns an attempt's round of SETs. With fencing tokens, the client receives replies
// from exactly the nodes in a.countsReceived.
func (t *timedPath) acquireRound(a *attempt) round {
	if t.hardened() {
		return round{nodes: t.scope.Nodes, arrivals: a.set, decidingNode: a.decidingNode}
	}
	if !a.fenced {
		return newRound(t.scope.Nodes, a.set, a.won, false)
	}
	r := round{nodes: t.scope.Nodes, arrivals: a.set}
	for n, d := range a.set {
		switch {
		case a.countsReceived>>(n-1)&1 == 1:
			r.lastReply = max(r.lastReply, n)
		case d.inTime:
			r.lateReplies = append(r.lateReplies, n)
		}
	}
	if bits.OnesCount8(a.countsReceived) < r.nodes {
		r.lastReply = 0
	}
	return r
}

// newRound returns a round with the given arrivals. won means that the client gets enough votes,
// and lost that a majority refuses. If it is neither, the client receives no replies in time.
func newRound(nodes int, arrivals map[int]delivery, won, lost bool) round {
	r := round{nodes: nodes, arrivals: arrivals}
	inTime := slices.DeleteFunc(slices.Sorted(maps.Keys(arrivals)), func(n int) bool { return !arrivals[n].inTime })
	agreeing := slices.DeleteFunc(slices.Clone(inTime), func(n int) bool { return arrivals[n].granted != won })
	disagreeing := slices.DeleteFunc(slices.Clone(inTime), func(n int) bool { return arrivals[n].granted == won })
	switch {
	case !won && !lost:
		r.lateReplies = inTime
	case len(disagreeing) > 0:
		r.lateReplies = disagreeing
	case len(inTime) < r.nodes:
	case r.nodes > 2: // the other nodes are still a majority
		r.lateReplies = agreeing[len(agreeing)-1:]
	default:
		r.lastReply = agreeing[0]
	}
	return r
}

// duration returns how long a round takes: the timeout if a reply is missing, otherwise slightly
// less, because the last reply is delayed until just before the timeout.
func (t *timedPath) duration(r round) time.Duration {
	if r.lastReply > 0 {
		return nodeTimeout - 2*t.gap
	}
	return nodeTimeout
}

// readPath assigns the path's steps to attempts.
func (t *timedPath) readPath() error {
	for i, s := range t.path {
		t.stepTimes = append(t.stepTimes, t.newInstant())
		at := t.stepTimes[i]
		if s.Action == nodeCrashed || s.Action == clockJumped {
			t.faults = append(t.faults, timedFault{s, at, t.newInstant()})
		}
		if s.Client == 0 {
			continue
		}
		a := t.attempt(s.Client-1, s.Attempt-1)
		switch s.Action {
		case setArrived:
			a.set[s.Node] = delivery{at, s.Yes, a.end < 0}
			if s.Yes && a.end < 0 {
				a.decidingNode = s.Node
			}
		case extendArrived:
			a.ext[s.Node] = delivery{at, s.Yes, a.extendEnd < 0}
		case delArrived:
			a.del[s.Node] = delivery{at, s.Yes, true}
		case lockAcquired:
			a.end, a.won = at, true
			t.setCounts(a, s)
		case raiseStarted:
			t.setCounts(a, s)
		case raiseArrived:
			a.raises = append(a.raises, tokenWrite{s.Node, at})
		case readDone:
			a.refused = !s.Yes
		case writeArrived:
			a.write = &delivery{at, s.Yes, !a.ended && t.attempts[s.Client-1][len(t.attempts[s.Client-1])-1] == a && (a.endedWindows == 0 || a.extendSucceeded && a.endedWindows == 1)}
		case acquireFailed:
			a.end, a.ended = at, true
			a.releaseTime = at
		case extendStarted:
			a.extendStart, a.extends = at, true
		case extendSucceeded, extendFailed, extendLost:
			a.extendEnd, a.extendSucceeded, a.extendLost = at, s.Action == extendSucceeded, s.Action == extendLost
		case lockReleased:
			a.releaseTime, a.ended = at, true
		case windowEnded:
			a.late = a.late || a.end < 0
			a.endedWindows++
		case attemptStarted, replyArrived, writeSent:
		default:
			return fmt.Errorf("a scenario can't express this step: %v", s)
		}
	}
	t.addImplicitEvents()
	if err := t.checkQuorum(); err != nil {
		return err
	}
	return t.checkRaises()
}

// hardened reports whether the lock is the hardened lock.
func (t *timedPath) hardened() bool { return t.scope.Lock == hardenedLock }

// checkQuorum returns an error if the hardened lock can't behave as in the path. Its Acquire
// returns as soon as a quorum has voted, so every attempt must receive exactly a quorum of votes.
// Scenarios can't express its failed attempts and extensions yet.
func (t *timedPath) checkQuorum() error {
	for _, a := range slices.Concat(t.attempts[0], t.attempts[1]) {
		votes, voters := 0, uint8(0)
		for n, d := range a.set {
			if d.granted && d.inTime {
				votes++
				voters |= 1 << (n - 1)
			}
		}
		if t.hardened() && (!a.won || a.extends || votes != t.scope.Nodes/2+1 || a.fenced && a.countsReceived != voters) {
			return fmt.Errorf("%w: the lock does not wait for more votes than a quorum", errUntimed)
		}
	}
	return nil
}

// setCounts records which nodes' counts a token comes from.
func (t *timedPath) setCounts(a *attempt, s Step) {
	if s.CountsReceived > 0 {
		a.fenced, a.countsReceived, a.laggingNodes = true, s.CountsReceived, s.LaggingNodes
	}
}

// checkRaises returns an error unless every token is written back immediately and confirmed,
// because a plan can't delay that.
func (t *timedPath) checkRaises() error {
	for _, a := range slices.Concat(t.attempts[0], t.attempts[1]) {
		arrived := uint8(0)
		for _, r := range a.raises {
			arrived |= 1 << (r.node - 1)
		}
		if a.laggingNodes != arrived || a.laggingNodes > 0 && !a.won {
			return fmt.Errorf("%w: a token is written back late or never", errUntimed)
		}
	}
	return nil
}

// attempt returns a client's nth attempt, creating it if necessary.
func (t *timedPath) attempt(c, n int) *attempt {
	for len(t.attempts[c]) <= n {
		t.attempts[c] = append(t.attempts[c], &attempt{start: t.newInstant(), end: -1, extendEnd: -1, releaseTime: -1,
			set: map[int]delivery{}, ext: map[int]delivery{}, del: map[int]delivery{}})
	}
	return t.attempts[c][n]
}

// addImplicitEvents adds events that the search leaves out of paths. For example, a hold followed
// by another attempt must have been released.
func (t *timedPath) addImplicitEvents() {
	for c := range t.attempts {
		for n, a := range t.attempts[c] {
			if a.end < 0 {
				a.end = t.newInstant()
			}
			if a.extends && a.extendEnd < 0 {
				a.extendEnd = t.newInstant()
			}
			switch {
			case a.ended:
			case a.won && (n < len(t.attempts[c])-1 || len(a.del) > 0 || !t.endsInOverlap()):
				a.releaseTime, a.ended = t.newInstant(), true
			case !a.won && !t.endsInOverlap():
				a.releaseTime, a.ended = a.end, true
			}
			a.writeTime = t.newInstant()
			if a.late = a.late && a.won; a.late {
				a.pauseStart = t.newInstant()
			}
		}
	}
}

// addRelease adds the constraints on the release of a hold. A holder releases the lock when its
// work is done and the resource has replied, or when its lease ends.
//
//	end ── hold time ──► sent ─────► write arrives ──► release
//	 reads                └─ or its lease ends ───────► release … the write arrives
func (t ordering) addRelease(c int, a *attempt) {
	holdTime := t.holdTime(c)
	if t.extends(c) { // the extension takes time too
		holdTime += t.duration(newRound(t.scope.Nodes, a.ext, a.extendSucceeded, a.extendLost))
	}
	t.exact(a.end, a.writeTime, holdTime)
	switch {
	case t.scope.Property != resourceSafety:
		t.exact(a.end, a.releaseTime, holdTime)
	case a.refused:
		t.exact(a.end, a.releaseTime, 0)
	case a.write != nil && a.write.inTime:
		t.exact(a.write.at, a.releaseTime, 0)
		t.atMost(t.leaseStart(a), a.releaseTime, beliefWindow()-t.gap)
	default:
		t.exact(t.leaseStart(a), a.releaseTime, beliefWindow())
	}
}

// leaseStart returns when a hold's last window begins.
func (t ordering) leaseStart(a *attempt) instant {
	switch {
	case a.extendSucceeded:
		return a.extendStart
	case t.scope.Mistake == noElapsedCheck:
		return a.end
	}
	return a.start
}

// addResource adds the constraints between events at the resource. A client reads as soon as it has
// acquired the lock, and sends its write while it considers itself the holder.
func (t ordering) addResource() {
	last := instant(-1)
	next := func(at instant) {
		if last >= 0 {
			t.atLeast(last, at, t.gap)
		}
		last = at
	}
	for i, s := range t.path {
		if s.Client == 0 {
			continue
		}
		switch a := t.attempts[s.Client-1][s.Attempt-1]; s.Action {
		case lockAcquired:
			if !t.hasRead(s) {
				next(a.end)
			}
		case readDone:
			t.exact(a.end, t.stepTimes[i], 0)
			next(t.stepTimes[i])
		case writeArrived:
			t.atLeast(a.writeTime, a.write.at, t.gap)
			next(a.write.at)
		}
	}
	for c := range t.attempts {
		for _, a := range t.attempts[c] {
			if a.won && !a.refused {
				t.atMost(t.leaseStart(a), a.writeTime, beliefWindow()-t.gap)
				if a.write != nil && !a.write.inTime {
					t.atLeast(a.releaseTime, a.write.at, t.gap)
				}
			}
		}
	}
}

// hasRead reports whether the path contains the read of a step's hold.
func (t ordering) hasRead(step Step) bool {
	for _, s := range t.path {
		if s.Action == readDone && s.Client == step.Client && s.Attempt == step.Attempt {
			return true
		}
	}
	return false
}

// addAttemptStarts makes each attempt start after all acquires that precede its first SET's arrival
// in the path.
func (t ordering) addAttemptStarts() {
	var acquires []instant
	started := map[*attempt]bool{}
	for _, s := range t.path {
		if s.Client == 0 {
			continue
		}
		switch a := t.attempts[s.Client-1][s.Attempt-1]; {
		case s.Action == lockAcquired:
			acquires = append(acquires, a.end)
		case s.Action == setArrived && !started[a]:
			started[a] = true
			for _, g := range acquires {
				t.atLeast(g, a.start, t.gap)
			}
		}
	}
}
