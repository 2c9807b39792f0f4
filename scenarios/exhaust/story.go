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

// errUntimed is the error for a path to whose steps no times can be assigned. The search then
// continues with other paths.
var errUntimed = errors.New("no times satisfy the path")

// Settings of the scenarios.
const (
	leaseTTL    = 10 * time.Second
	leaseDrift  = 0.01
	nodeTimeout = 2 * time.Second
	retry       = 50 * time.Millisecond
	overlap     = time.Second // minimum time during which both clients consider themselves the holder
)

// pace defines the minimum times between ordered events. They are longer than any operation takes
// that is not delayed by the network.
type pace struct {
	gap   time.Duration
	back  time.Duration // from a crash until its node answers
	sync  time.Duration // after a change until it is certainly on disk
	scale float64       // factor for these times on real servers, which makes the gap 0.1 s; 0 if real servers cannot guarantee the order of events so close together
}

// paces lists the paces to try in order, so that a story gets the longest possible gaps.
var paces = []pace{realPace(8), realPace(4), realPace(2), realPace(1), {gap: 50 * time.Millisecond, back: 50 * time.Millisecond, sync: 3 * time.Second}}

// realPace returns a pace for servers and clients that run as processes. Its gaps are the given
// multiple of the shortest ones with which the order of events can be controlled.
func realPace(times int) pace {
	slow := func(d time.Duration) time.Duration { return d * time.Duration(times) }
	return pace{slow(100 * time.Millisecond), slow(400 * time.Millisecond), slow(3 * time.Second), 1 / float64(times)}
}

// beliefWindow returns how long a client may consider itself the holder, from the start of its
// attempt.
func beliefWindow() time.Duration { return leaseTTL - redlock.Drift(leaseTTL, leaseDrift) }

// Times on which several steps depend, to be tried in order. sections is how long a client holds a
// lock that it releases, and extendDelays is how long clients wait before they extend their locks.
var (
	sections     = []time.Duration{1500 * time.Millisecond, 7500 * time.Millisecond}
	extendDelays = []time.Duration{time.Second, 3 * time.Second, 5 * time.Second, 7 * time.Second}
)

// newScenario turns a path of a scope into a scenario with the given name, which expects a violation of the
// scope's property. known holds the names that a scenario file may use.
func newScenario(name string, scope Scope, path []Step, known scenario.Known) (scenario.Scenario, error) {
	for _, p := range paces {
		for _, section := range sections {
			for _, after := range extendDelays[:1+scope.Extends*(len(extendDelays)-1)] {
				t := &timedPath{scope: scope, path: path, pace: p, extendAfter: after, section: section}
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

// timedPath is a path together with the times of its steps.
type timedPath struct {
	instants
	pace
	scope       Scope
	path        []Step
	section     time.Duration // length of a hold that ends without an extension
	extendAfter time.Duration // time from the grant to the extension
	attempts    [2][]*attempt
	when        []instant // instant of each step
	faults      []timedFault
}

// ordering adds constraints to the instants of a timed path.
type ordering struct{ *timedPath }

// planner turns a timed path whose instants have been solved into clients and a plan.
type planner struct{ *timedPath }

// timedFault is a crash or a clock jump.
type timedFault struct {
	Step
	at    instant
	stall instant // with fsync everysec, when syncing stops
}

// attempt is a client's attempt, with the hold that may follow it.
type attempt struct {
	start, end                  instant // when the SETs are sent, and when the client has decided
	won, late                   bool    // late: decided after its own window
	pause                       instant // when the client is paused, if it is late: after its round
	extend                      instant // when the extension begins
	extends                     bool
	extended                    instant          // when the extension ends
	extendSucceeded, extendLost bool             // the extension succeeded, or a majority refused it
	release                     instant          // when the DELs are sent
	ended                       bool             // the DELs are sent: the attempt failed or the hold ended
	set, ext, del               map[int]delivery // by node

	decidingNode int // the node with the deciding vote, for the hardened lock

	fenced        bool    // the token comes from the counts of the nodes in heard
	heard, behind uint8   // bit sets of nodes
	raised        []raise // where the token was written back
	sent          instant // when the write is sent, with resourceSafety
	write         *delivery
	refused       bool // the read was refused, so there is no write
	endedWindows  int  // number of windows that have ended so far
}

// raise is the arrival of a token that is written back to a node.
type raise struct {
	node int
	at   instant
}

// delivery is the arrival of a message.
type delivery struct {
	at     instant
	yes    bool
	inTime bool // whether it arrived before its round ended
}

// scenarioHead is the part that all generated scenarios share.
const scenarioHead = `name: %s
claim: %s
source: a search of all orders of messages and faults in a small scope (lockpick model-check)
topology: {nodes: %d, persistence: %s}
lock: {kind: %s, ttl: %v, drift: 1%%, timeout: %v, retry: %v, tries: %d, fence: %v}
clients: 2
workload: {kind: read-modify-write, keys: 1, fence: %s, think: 0s, cycles: 1}
expect: {mutual-exclusion: any, resource-safety: any}
`

// claims maps each property to the claim of the scenarios that violate it.
var claims = map[Property]string{
	MutualExclusion: "Two clients hold the lock at the same time.",
	resourceSafety:  "A write overwrites another one that its client has not seen.",
	fencingOrder:    "A fencing token is not higher than one issued before.",
}

// scenario returns the path as a scenario.
func (t planner) scenario(name string, known scenario.Known) (scenario.Scenario, error) {
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
	text := fmt.Sprintf(scenarioHead, name, claims[property], t.scope.Nodes, persistence, kind, leaseTTL, nodeTimeout, retry, t.scope.Attempts, t.scope.Fence, fence)
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
		s.Workload.Extend, s.Lock.Extends = t.extendAfter, 1
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

// setClient sets when a client starts, how often it acquires the lock, and how long it holds it.
func (t planner) setClient(c int, k *scenario.Client) {
	k.Delay = t.at[t.attempts[c][0].start]
	hold := t.hold(c)
	k.Hold = &client.Range{Min: hold, Max: hold}
	cycles := 1 // plus one for each hold followed by another attempt
	for _, a := range t.attempts[c][:len(t.attempts[c])-1] {
		if a.won {
			cycles++
		}
	}
	k.Cycles = &cycles
}

// hold returns how long a client holds the lock, which is long enough for the two holds to overlap
// if the story requires that.
func (t planner) hold(c int) time.Duration {
	if t.hasFixedHold(c) {
		return t.holdTime(c)
	}
	own, other := t.at[t.lastAttempt(c).end], t.at[t.lastAttempt(1-c).end]
	if own >= other {
		return overlap / 2
	}
	return other - own + overlap*3/4
}

// afterRun returns a time after all events in the run.
func (t planner) afterRun() time.Duration {
	return (slices.Max(t.at) + 30*time.Second).Round(time.Second)
}

// plan returns the plan. It contains the faults, and for each message a delay that makes it arrive
// as in the path, or never.
func (t planner) plan() nemesis.Plan {
	var out nemesis.Plan
	for _, f := range t.faults {
		out = append(out, t.fault(f)...)
	}
	for c := range t.attempts {
		deleted, prolonged, written := 0, 0, 0
		for n, a := range t.attempts[c] {
			if a.late {
				who := fmt.Sprintf("c%d", c+1)
				out = append(out, nemesis.Step{
					When:  nemesis.Trigger{Point: &nemesis.OnPoint{Client: who, Point: client.DuringAcquire, Nth: n + 1}},
					Fault: nemesis.Fault{Kind: "pause", Targets: []string{who}, For: new(t.at[a.end] - t.at[a.pause])},
				})
			}
			out = append(out, t.messages(c, "set", n+1, a.start, t.acquireRound(a))...)
			if t.willExtend(c, n) {
				prolonged++
				out = append(out, t.messages(c, "extend", prolonged, a.extend, newRound(t.scope.Nodes, a.ext, a.extendSucceeded, a.extendLost))...)
			}
			if a.ended {
				deleted++
				out = append(out, t.messages(c, "release", deleted, a.release, newRound(t.scope.Nodes, a.del, false, false))...)
			}
			if t.scope.Property == resourceSafety && a.won && !a.refused {
				written++
				out = append(out, t.delayedWrite(c, written, a))
			}
		}
		out = append(out, t.extraAttempts(c)...)
	}
	return out
}

// delayedWrite returns a step that delays a write so that it arrives as in the path, or never.
func (t planner) delayedWrite(c, nth int, a *attempt) nemesis.Step {
	late := t.afterRun()
	if a.write != nil {
		late = t.at[a.write.at] - t.at[a.sent]
	}
	return delay(c, scenario.ResourceName, "write", nemesis.Request, nth, late)
}

// delay returns a step in which the network holds back a client's message for time d.
func delay(c int, other, kind, of string, nth int, d time.Duration) nemesis.Step {
	return nemesis.Step{
		When:  nemesis.Trigger{Message: &nemesis.OnMessage{Link: fmt.Sprintf("c%d-%s", c+1, other), Message: kind, Of: of, Nth: nth}},
		Fault: nemesis.Fault{Kind: nemesis.Hold, For: &d},
	}
}

// extraAttempts returns the steps that make a client's additional attempts fail. A client makes
// such attempts if its last attempt in the path failed.
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

// willExtend reports whether a hold lasts long enough for an extension, even if the path has none.
func (t planner) willExtend(c, n int) bool {
	a := t.attempts[c][n]
	return a.won && t.anyExtends() && (a.extends || t.hold(c) >= t.extendAfter)
}

// messages returns the steps for a client's nth round of messages of the given kind. Messages
// arrive as in the path; those that do not occur there never arrive. Some replies are delayed, so
// that they arrive too late or last.
func (t planner) messages(c int, kind string, nth int, sent instant, r round) (out nemesis.Plan) {
	hold := func(node int, of string, nth int, d time.Duration) {
		out = append(out, delay(c, fmt.Sprintf("n%d", node), kind, of, nth, d))
	}
	for node := 1; node <= r.nodes; node++ {
		d, arrives := r.arrivals[node]
		if !arrives {
			hold(node, nemesis.Request, nth, t.afterRun())
			out[len(out)-1].When.Before = t.afterRun() // the message may never be sent, because a crash may have reset its connection
			continue
		}
		there := t.at[d.at] - t.at[sent]
		switch hold(node, nemesis.Request, nth, there); {
		case slices.Contains(r.lateReplies, node):
			hold(node, nemesis.Reply, t.replyOrdinal(c, kind, node, d), t.afterRun())
		case node == r.lastReply:
			hold(node, nemesis.Reply, t.replyOrdinal(c, kind, node, d), t.duration(r)-there)
		}
	}
	return out
}

// replyOrdinal returns the ordinal of the reply to one message among a node's replies to a client's
// messages of the given kind. Replies are numbered in the order in which the messages arrive; a
// message that never arrives has no reply.
func (t planner) replyOrdinal(c int, kind string, node int, to delivery) int {
	nth := 1
	for _, a := range t.attempts[c] {
		all := map[string]map[int]delivery{"set": a.set, "extend": a.ext, "release": a.del}[kind]
		if d, arrives := all[node]; arrives && t.at[d.at] < t.at[to.at] {
			nth++
		}
	}
	return nth
}

func (t planner) fault(f timedFault) nemesis.Plan {
	targets := []string{fmt.Sprintf("n%d", f.Node)}
	step := nemesis.Step{When: t.trigger(f, t.at[f.at]), Fault: nemesis.Fault{Kind: "kill", Targets: targets, For: new(10 * time.Millisecond)}}
	switch {
	case f.Action == clockJumped:
		step.Fault = nemesis.Fault{Kind: "clock-jump", Targets: targets, By: leaseTTL + time.Second}
	case t.scope.Restart == RestartDelayed:
		step.Fault.For = new(downTime)
	case t.scope.Restart == restartEverySec:
		step.Fault.Kind, step.Fault.Mode = "power-loss", nemesis.PowerClean
		stall := nemesis.Fault{Kind: "slow-disk", Targets: targets, For: new(t.at[f.at] - t.at[f.stall] + t.gap)}
		return nemesis.Plan{{When: t.trigger(f, t.at[f.stall]), Fault: stall}, step}
	}
	return nemesis.Plan{step}
}

// trigger returns a trigger that fires at the time when, for a part of fault f. It is relative to
// the acquire that sent the last message to arrive at the node before the fault, because a client
// process takes some time to start. If no acquire began before that time, the trigger is an
// absolute time.
func (t planner) trigger(f timedFault, when time.Duration) nemesis.Trigger {
	for i, s := range slices.Backward(t.path) {
		if s.Node != f.Node || s.Client == 0 || t.at[t.when[i]] > t.at[f.at] {
			continue
		}
		nth, first := 1, 0 // ordinal of the acquire, and its first attempt
		for n, a := range t.attempts[s.Client-1][:s.Attempt-1] {
			if a.won {
				nth, first = nth+1, n+1
			}
		}
		began := t.at[t.attempts[s.Client-1][first].start]
		if when < began {
			break
		}
		return nemesis.Trigger{Event: &nemesis.Event{Client: fmt.Sprintf("c%d", s.Client), Event: "acquiring", Nth: nth, After: when - began}}
	}
	return nemesis.Trigger{At: &when}
}

// caption describes a path in one line for each step.
func caption(path []Step) string {
	var b strings.Builder
	for i, s := range path {
		fmt.Fprintf(&b, "%3d  %v\n", i+1, s)
	}
	return b.String()
}

// instant stands for a time to be determined. It is an index into instants.at.
type instant int

// instants is a system of difference constraints, which require minimum distances between times.
type instants struct {
	at          []time.Duration
	constraints []constraint
}

// constraint requires that to is at least min after from. If min is negative, to may be up to -min
// before from.
type constraint struct {
	from, to instant
	min      time.Duration
}

func (s *instants) add() instant {
	s.at = append(s.at, 0)
	return instant(len(s.at) - 1)
}

func (s *instants) atLeast(from, to instant, d time.Duration) {
	s.constraints = append(s.constraints, constraint{from, to, d})
}

// atMost requires that to is at most d after from.
func (s *instants) atMost(from, to instant, d time.Duration) { s.atLeast(to, from, -d) }

func (s *instants) exact(from, to instant, d time.Duration) {
	s.atLeast(from, to, d)
	s.atMost(from, to, d)
}

// solve finds the earliest nonnegative times that satisfy the constraints, and reports whether
// there are any. They are the lengths of longest paths through the constraints, computed with the
// Bellman–Ford algorithm.
func (s *instants) solve() bool {
	clear(s.at)
	for range len(s.at) + 1 {
		moved := false
		for _, l := range s.constraints {
			if t := s.at[l.from] + l.min; s.at[l.to] < t {
				s.at[l.to], moved = t, true
			}
		}
		if !moved {
			return true
		}
	}
	return false
}

// round is a round of messages. It determines which replies the client receives in time, so that
// the client decides as in the path.
type round struct {
	nodes        int
	arrivals     map[int]delivery // messages that arrive, by node
	lateReplies  []int            // nodes whose messages arrive in time but whose replies must be too late
	lastReply    int              // the node whose reply arrives last, if all replies are needed; 0 if one is missing
	decidingNode int              // the node whose vote ends the round, for the hardened lock; 0 if the client waits for all replies
}

// acquireRound returns the round of SETs in an attempt. With fencing tokens, the client receives
// the replies of exactly the nodes in a.heard.
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
		case a.heard>>(n-1)&1 == 1:
			r.lastReply = max(r.lastReply, n)
		case d.inTime:
			r.lateReplies = append(r.lateReplies, n)
		}
	}
	if bits.OnesCount8(a.heard) < r.nodes {
		r.lastReply = 0
	}
	return r
}

// newRound returns a round with the given arrivals. won means that the client gets enough votes,
// and lost that a majority refuses; if neither is set, it receives no replies in time.
func newRound(nodes int, all map[int]delivery, won, lost bool) round {
	r := round{nodes: nodes, arrivals: all}
	heard := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(n int) bool { return !all[n].inTime })
	agree := slices.DeleteFunc(slices.Clone(heard), func(n int) bool { return all[n].yes != won })
	against := slices.DeleteFunc(slices.Clone(heard), func(n int) bool { return all[n].yes == won })
	switch {
	case !won && !lost:
		r.lateReplies = heard
	case len(against) > 0:
		r.lateReplies = against
	case len(heard) < r.nodes:
	case r.nodes > 2: // the other nodes still form a majority
		r.lateReplies = agree[len(agree)-1:]
	default:
		r.lastReply = agree[0]
	}
	return r
}

// duration returns how long a round takes: the timeout if a reply is missing, otherwise a bit less,
// because the last reply is delayed until just before the timeout.
func (t *timedPath) duration(r round) time.Duration {
	if r.lastReply > 0 {
		return nodeTimeout - 2*t.gap
	}
	return nodeTimeout
}

// readPath assigns the path's steps to attempts.
func (t *timedPath) readPath() error {
	for i, s := range t.path {
		t.when = append(t.when, t.add())
		at := t.when[i]
		if s.Action == nodeCrashed || s.Action == clockJumped {
			t.faults = append(t.faults, timedFault{s, at, t.add()})
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
			a.ext[s.Node] = delivery{at, s.Yes, a.extended < 0}
		case delArrived:
			a.del[s.Node] = delivery{at, s.Yes, true}
		case acquired:
			a.end, a.won = at, true
			t.setCounts(a, s)
		case raiseStarted:
			t.setCounts(a, s)
		case raiseArrived:
			a.raised = append(a.raised, raise{s.Node, at})
		case readDone:
			a.refused = !s.Yes
		case writeArrived:
			a.write = &delivery{at, s.Yes, !a.ended && t.attempts[s.Client-1][len(t.attempts[s.Client-1])-1] == a && (a.endedWindows == 0 || a.extendSucceeded && a.endedWindows == 1)}
		case acquireFailed:
			a.end, a.ended = at, true
			a.release = at
		case extendStarted:
			a.extend, a.extends = at, true
		case extendSucceeded, extendFailed, extendLost:
			a.extended, a.extendSucceeded, a.extendLost = at, s.Action == extendSucceeded, s.Action == extendLost
		case released:
			a.release, a.ended = at, true
		case windowEnded:
			a.late = a.late || a.end < 0
			a.endedWindows++
		case started, replyArrived, writeSent:
		default:
			return fmt.Errorf("a scenario cannot express this step: %v", s)
		}
	}
	t.complete()
	if err := t.checkQuorum(); err != nil {
		return err
	}
	return t.checkRaises()
}

// hardened reports whether the lock is the hardened one, whose Acquire returns as soon as a quorum
// has voted.
func (t *timedPath) hardened() bool { return t.scope.Lock == hardenedLock }

// checkQuorum returns an error if the hardened lock cannot behave as in the path. It returns as
// soon as a quorum has voted, so each attempt must have received exactly a quorum of votes.
// Scenarios cannot express its failed attempts and extensions yet.
func (t *timedPath) checkQuorum() error {
	for _, a := range slices.Concat(t.attempts[0], t.attempts[1]) {
		votes, heard := 0, uint8(0)
		for n, d := range a.set {
			if d.yes && d.inTime {
				votes++
				heard |= 1 << (n - 1)
			}
		}
		if t.hardened() && (!a.won || a.extends || votes != t.scope.Nodes/2+1 || a.fenced && a.heard != heard) {
			return fmt.Errorf("%w: a lock that returns at a quorum does not wait for more", errUntimed)
		}
	}
	return nil
}

// setCounts records which nodes' counts determine the token.
func (t *timedPath) setCounts(a *attempt, s Step) {
	if s.Heard > 0 {
		a.fenced, a.heard, a.behind = true, s.Heard, s.Behind
	}
}

// checkRaises returns an error unless all tokens are written back immediately and confirmed,
// because a plan cannot delay write-backs.
func (t *timedPath) checkRaises() error {
	for _, a := range slices.Concat(t.attempts[0], t.attempts[1]) {
		arrived := uint8(0)
		for _, r := range a.raised {
			arrived |= 1 << (r.node - 1)
		}
		if a.behind != arrived || a.behind > 0 && !a.won {
			return fmt.Errorf("%w: a token is written back late or never", errUntimed)
		}
	}
	return nil
}

// attempt returns a client's attempt, creating it if necessary.
func (t *timedPath) attempt(c, n int) *attempt {
	for len(t.attempts[c]) <= n {
		t.attempts[c] = append(t.attempts[c], &attempt{start: t.add(), end: -1, extended: -1, release: -1,
			set: map[int]delivery{}, ext: map[int]delivery{}, del: map[int]delivery{}})
	}
	return t.attempts[c][n]
}

// complete adds events that the search leaves out of its paths: for example, a hold that is followed by
// another attempt has been released.
func (t *timedPath) complete() {
	for c := range t.attempts {
		for n, a := range t.attempts[c] {
			if a.end < 0 {
				a.end = t.add()
			}
			if a.extends && a.extended < 0 {
				a.extended = t.add()
			}
			switch {
			case a.ended:
			case a.won && (n < len(t.attempts[c])-1 || len(a.del) > 0 || !t.endsInOverlap()):
				a.release, a.ended = t.add(), true
			case !a.won && !t.endsInOverlap():
				a.release, a.ended = a.end, true
			}
			a.sent = t.add()
			if a.late = a.late && a.won; a.late {
				a.pause = t.add()
			}
		}
	}
}

// addRelease adds the constraints on a hold's release. A holder releases the lock when its work is
// done and the resource has replied, or when its lease ends.
//
//	end ── hold time ──► sent ─────► write arrives ──► release
//	 reads                └─ or its lease ends ───────► release … the write arrives
func (t ordering) addRelease(c int, a *attempt) {
	held := t.holdTime(c)
	if t.extends(c) { // plus the time of the extension
		held += t.duration(newRound(t.scope.Nodes, a.ext, a.extendSucceeded, a.extendLost))
	}
	t.exact(a.end, a.sent, held)
	switch {
	case t.scope.Property != resourceSafety:
		t.exact(a.end, a.release, held)
	case a.refused:
		t.exact(a.end, a.release, 0)
	case a.write != nil && a.write.inTime:
		t.exact(a.write.at, a.release, 0)
		t.atMost(t.leaseStart(a), a.release, beliefWindow()-t.gap)
	default:
		t.exact(t.leaseStart(a), a.release, beliefWindow())
	}
}

// leaseStart returns the beginning of the last window in which the client considers itself the
// holder.
func (t ordering) leaseStart(a *attempt) instant {
	switch {
	case a.extendSucceeded:
		return a.extend
	case t.scope.Mistake == noElapsed:
		return a.end
	}
	return a.start
}

// addResource adds the constraints between events at the resource. A hold's read happens
// immediately after its acquire. A write is sent while its client considers itself the holder.
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
		case acquired:
			if !t.hasRead(s) {
				next(a.end)
			}
		case readDone:
			t.exact(a.end, t.when[i], 0)
			next(t.when[i])
		case writeArrived:
			t.atLeast(a.sent, a.write.at, t.gap)
			next(a.write.at)
		}
	}
	for c := range t.attempts {
		for _, a := range t.attempts[c] {
			if a.won && !a.refused {
				t.atMost(t.leaseStart(a), a.sent, beliefWindow()-t.gap)
				if a.write != nil && !a.write.inTime {
					t.atLeast(a.release, a.write.at, t.gap)
				}
			}
		}
	}
}

// hasRead reports whether the path contains a hold's read.
func (t ordering) hasRead(of Step) bool {
	for _, s := range t.path {
		if s.Action == readDone && s.Client == of.Client && s.Attempt == of.Attempt {
			return true
		}
	}
	return false
}

// addAttemptStarts requires that each attempt begins after all acquires that precede the arrival of
// its first SET in the path.
func (t ordering) addAttemptStarts() {
	var given []instant
	begun := map[*attempt]bool{}
	for _, s := range t.path {
		if s.Client == 0 {
			continue
		}
		switch a := t.attempts[s.Client-1][s.Attempt-1]; {
		case s.Action == acquired:
			given = append(given, a.end)
		case s.Action == setArrived && !begun[a]:
			begun[a] = true
			for _, g := range given {
				t.atLeast(g, a.start, t.gap)
			}
		}
	}
}
