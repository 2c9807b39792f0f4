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

// errUntimed says that a path can't happen in time: a search goes on for another.
var errUntimed = errors.New("no instants fit the path")

// Settings of the scenarios.
const (
	leaseTTL    = 10 * time.Second
	leaseDrift  = 0.01
	nodeTimeout = 2 * time.Second
	retry       = 50 * time.Millisecond
	overlap     = time.Second // both believe at least so long
)

// pace is how far apart things are at least that must be in order: longer than anything takes
// that the network does not hold.
type pace struct {
	gap   time.Duration
	back  time.Duration // from a crash until its node can be spoken to
	sync  time.Duration // after a change it is on disk for certain
	scale float64       // of all this on real servers, where a gap is a tenth of a second; 0: real time can't promise so short a one
}

// paces are tried in turn, so that a story has as much room as it can have.
var paces = []pace{realPace(8), realPace(4), realPace(2), realPace(1), {gap: 50 * time.Millisecond, back: 50 * time.Millisecond, sync: 3 * time.Second}}

// realPace is one for servers and clients that are processes, so many times as slow as they can be
// told to act one after the other.
func realPace(times int) pace {
	slow := func(d time.Duration) time.Duration { return d * time.Duration(times) }
	return pace{slow(100 * time.Millisecond), slow(400 * time.Millisecond), slow(3 * time.Second), 1 / float64(times)}
}

// beliefWindow is how long a client may believe, from the start of its attempt.
func beliefWindow() time.Duration { return leaseTTL - redlock.Drift(leaseTTL, leaseDrift) }

// Times that the instants of several steps hang on, to be tried in turn: how long a client
// holds a lock that it releases, and after how long both extend theirs.
var (
	sections = []time.Duration{1500 * time.Millisecond, 7500 * time.Millisecond}
	extends  = []time.Duration{time.Second, 3 * time.Second, 5 * time.Second, 7 * time.Second}
)

// scenarioOf is a path of a scope as a scenario of that name, which expects that the scope's property
// is violated. The names that a file may use are the caller's.
func scenarioOf(name string, scope Scope, path []Step, known scenario.Known) (scenario.Scenario, error) {
	for _, p := range paces {
		for _, section := range sections {
			for _, after := range extends[:1+scope.Extends*(len(extends)-1)] {
				t := &telling{scope: scope, path: path, pace: p, after: after, section: section}
				if err := t.read(); err != nil {
					return scenario.Scenario{}, err
				}
				if (limits{t}).order(); t.solve() {
					return arrange{t}.scenario(name, known)
				}
			}
		}
	}
	return scenario.Scenario{}, fmt.Errorf("%w: it takes a client or a request that is later than it can be", errUntimed)
}

// telling is a path that is given instants.
type telling struct {
	instants
	pace
	scope    Scope
	path     []Step
	section  time.Duration // a hold that ends, if nothing is extended in it
	after    time.Duration // from the grant to the extension
	attempts [2][]*attempt
	when     []instant // of each step
	faults   []faulty
}

// limits puts the instants of a telling in order.
type limits struct{ *telling }

// arrange makes clients and a plan of a telling whose instants are known.
type arrange struct{ *telling }

// faulty is a crash or a jump.
type faulty struct {
	Step
	at    instant
	stall instant // with EverySec: from here on nothing is synced
}

// attempt is one of a client's, with the hold that came of it.
type attempt struct {
	start, end    instant // the SETs are sent, the client has decided
	won, late     bool    // late: after its own window
	pause         instant // of the client, where it is late: once its round is over
	extend        instant // the extension begins
	extends       bool
	extended      instant          // it ends
	longer, lost  bool             // with success, or with a majority against it
	release       instant          // the DELs are sent
	ended         bool             // they are: it failed, or was held no longer
	set, ext, del map[int]delivery // by node

	decides int // the node whose vote was the last that it needed, of a lock that returns at a quorum

	counted       bool    // the token is by the counts of the nodes that were heard
	heard, behind uint8   // a bit each
	raised        []raise // the token has been written back
	sent          instant // the write is, with ResourceSafety
	write         *delivery
	refused       bool // the read was, and nothing is written
	over          int  // windows that are, so far
}

// raise is a token that arrives at a node.
type raise struct {
	node int
	at   instant
}

// delivery is a message that arrives.
type delivery struct {
	at     instant
	yes    bool
	inTime bool // before its round ended
}

// head is what all these scenarios have in common.
const head = `name: %s
claim: %s
source: a search of every order of messages and faults in a small scope (lockpick model-check)
topology: {nodes: %d, persistence: %s}
lock: {kind: %s, ttl: %v, drift: 1%%, timeout: %v, retry: %v, tries: %d, fence: %v}
clients: 2
workload: {kind: read-modify-write, keys: 1, fence: %s, think: 0s, cycles: 1}
expect: {mutual-exclusion: any, resource-safety: any}
`

// claims are what stories show.
var claims = map[Property]string{
	MutualExclusion: "Two clients hold the lock at once.",
	resourceSafety:  "A write is applied over another that its client has not seen.",
	fencingOrder:    "A lock's fencing token is not above that of one that was given before.",
}

// scenario is the path with its instants.
func (t arrange) scenario(name string, known scenario.Known) (scenario.Scenario, error) {
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
	case Always, everySec:
		persistence = string(t.scope.Restart)
	}
	property, fence := cmp.Or(t.scope.Property, MutualExclusion), "none"
	if t.scope.Fence {
		fence = "token"
	}
	text := fmt.Sprintf(head, name, claims[property], t.scope.Nodes, persistence, kind, leaseTTL, nodeTimeout, retry, t.scope.Attempts, t.scope.Fence, fence)
	all, err := scenario.Parse(name, []byte(text), known)
	if err != nil {
		return scenario.Scenario{}, err
	}
	s := all[0]
	clients := s.Clients
	s.Clients = nil
	for c := range t.attempts {
		if len(t.attempts[c]) > 0 {
			t.client(c, &clients[c])
			s.Clients = append(s.Clients, clients[c])
		}
	}
	if t.extending() {
		s.Workload.Extend, s.Lock.Extends = t.after, 1
	}
	s.Plan, s.Scale, s.Exact = t.plan(), t.scale, t.scale == 0
	s.Limit = max(s.Limit, t.never()+time.Minute)
	s.Expect = map[string]scenario.Expectation{verdict.MutualExclusion: {Want: outcome.AnyOutcome}, verdict.ResourceSafety: {Want: outcome.AnyOutcome}}
	if t.scope.Fence {
		s.Expect[verdict.FencingOrder] = scenario.Expectation{Want: outcome.AnyOutcome}
	}
	s.Expect[string(property)] = scenario.Expectation{Want: string(verdict.Violated)}
	scenario.Imply(s.Expect, s.Tier)
	return s, nil
}

func (t arrange) extending() bool {
	return t.extends(0) || t.extends(1)
}

// client is when a client starts, how often it acquires, and how long it holds the lock.
func (t arrange) client(c int, k *scenario.Client) {
	k.Delay = t.at[t.attempts[c][0].start]
	hold := t.hold(c)
	k.Hold = &client.Range{Min: hold, Max: hold}
	cycles := 1 // and one for each hold that is followed by another attempt
	for _, a := range t.attempts[c][:len(t.attempts[c])-1] {
		if a.won {
			cycles++
		}
	}
	k.Cycles = &cycles
}

// hold is how long a client holds the lock: until the other has had its section within it.
func (t arrange) hold(c int) time.Duration {
	if t.fixed(c) {
		return t.held(c)
	}
	own, other := t.at[t.last(c).end], t.at[t.last(1-c).end]
	if own >= other {
		return overlap / 2
	}
	return other - own + overlap*3/4
}

// never is later than all that happens.
func (t arrange) never() time.Duration {
	return (slices.Max(t.at) + 30*time.Second).Round(time.Second)
}

// plan is the faults, and each message that arrives when it does or never.
func (t arrange) plan() nemesis.Plan {
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
			out = append(out, t.messages(c, "set", n+1, a.start, t.asked(a))...)
			if t.prolongs(c, n) {
				prolonged++
				out = append(out, t.messages(c, "extend", prolonged, a.extend, roundState(t.scope.Nodes, a.ext, a.longer, a.lost))...)
			}
			if a.ended {
				deleted++
				out = append(out, t.messages(c, "release", deleted, a.release, roundState(t.scope.Nodes, a.del, false, false))...)
			}
			if t.scope.Property == resourceSafety && a.won && !a.refused {
				written++
				out = append(out, t.writing(c, written, a))
			}
		}
		out = append(out, t.further(c)...)
	}
	return out
}

// writing is a write that arrives when the path's does, or never.
func (t arrange) writing(c, nth int, a *attempt) nemesis.Step {
	late := t.never()
	if a.write != nil {
		late = t.at[a.write.at] - t.at[a.sent]
	}
	return held(c, scenario.ResourceName, "write", nemesis.Request, nth, late)
}

// held is a message between a client and something that the network holds for a while.
func held(c int, other, kind, of string, nth int, d time.Duration) nemesis.Step {
	return nemesis.Step{
		When:  nemesis.Trigger{Message: &nemesis.OnMessage{Link: fmt.Sprintf("c%d-%s", c+1, other), Message: kind, Of: of, Nth: nth}},
		Fault: nemesis.Fault{Kind: nemesis.Hold, For: &d},
	}
}

// further are attempts of which the path does not speak: a client that has failed makes them, and
// they come to nothing.
func (t arrange) further(c int) (out nemesis.Plan) {
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

// prolongs says whether a hold lasts so long that it is extended, whatever the path says.
func (t arrange) prolongs(c, n int) bool {
	a := t.attempts[c][n]
	return a.won && t.extending() && (a.extends || t.hold(c) >= t.after)
}

// messages is a round of messages to all nodes, the nth of its kind: those of the path arrive when
// they do there, and no others; and its answers are heard, are too late, or are heard last.
func (t arrange) messages(c int, kind string, nth int, sent instant, r round) (out nemesis.Plan) {
	hold := func(node int, of string, nth int, d time.Duration) {
		out = append(out, held(c, fmt.Sprintf("n%d", node), kind, of, nth, d))
	}
	for node := 1; node <= r.nodes; node++ {
		d, arrives := r.all[node]
		if !arrives {
			hold(node, nemesis.Request, nth, t.never())
			out[len(out)-1].When.Before = t.never() // nor need it be sent: a crash may have reset its connection
			continue
		}
		there := t.at[d.at] - t.at[sent]
		switch hold(node, nemesis.Request, nth, there); {
		case slices.Contains(r.unheard, node):
			hold(node, nemesis.Reply, t.reply(c, kind, node, d), t.never())
		case node == r.last:
			hold(node, nemesis.Reply, t.reply(c, kind, node, d), t.lasts(r)-there)
		}
	}
	return out
}

// reply counts the replies from a node to a client's messages of a kind, until that to one of them:
// in the order in which they arrived, for those that never do have none.
func (t arrange) reply(c int, kind string, node int, to delivery) int {
	nth := 1
	for _, a := range t.attempts[c] {
		all := map[string]map[int]delivery{"set": a.set, "extend": a.ext, "release": a.del}[kind]
		if d, arrives := all[node]; arrives && t.at[d.at] < t.at[to.at] {
			nth++
		}
	}
	return nth
}

func (t arrange) fault(f faulty) nemesis.Plan {
	targets := []string{fmt.Sprintf("n%d", f.Node)}
	step := nemesis.Step{When: t.trigger(f, t.at[f.at]), Fault: nemesis.Fault{Kind: "kill", Targets: targets, For: new(10 * time.Millisecond)}}
	switch {
	case f.Action == jumped:
		step.Fault = nemesis.Fault{Kind: "clock-jump", Targets: targets, By: leaseTTL + time.Second}
	case t.scope.Restart == Delayed:
		step.Fault.For = new(away)
	case t.scope.Restart == everySec:
		step.Fault.Kind, step.Fault.Mode = "power-loss", nemesis.PowerClean
		stall := nemesis.Fault{Kind: "slow-disk", Targets: targets, For: new(t.at[f.at] - t.at[f.stall] + t.gap)}
		return nemesis.Plan{{When: t.trigger(f, t.at[f.stall]), Fault: stall}, step}
	}
	return nemesis.Plan{step}
}

// trigger sets something of a fault off, unless it comes before all that: by the acquire whose message was the
// last at its node before the fault, for the process of a client takes some time to begin.
func (t arrange) trigger(f faulty, when time.Duration) nemesis.Trigger {
	for i, s := range slices.Backward(t.path) {
		if s.Node != f.Node || s.Client == 0 || t.at[t.when[i]] > t.at[f.at] {
			continue
		}
		nth, first := 1, 0 // of acquires, and of their attempts
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

// caption is a path in words, a line for each step.
func caption(path []Step) string {
	var b strings.Builder
	for i, s := range path {
		fmt.Fprintf(&b, "%3d  %v\n", i+1, s)
	}
	return b.String()
}

// instant is a moment whose place is looked for.
type instant int

// instants are moments that lie at least so far apart: a system of difference constraints.
type instants struct {
	at     []time.Duration
	limits []limit
}

// limit says that to is at least so much later than from, or where that is negative, at most so
// much earlier.
type limit struct {
	from, to instant
	least    time.Duration
}

func (s *instants) add() instant {
	s.at = append(s.at, 0)
	return instant(len(s.at) - 1)
}

func (s *instants) least(from, to instant, d time.Duration) {
	s.limits = append(s.limits, limit{from, to, d})
}

// most says that to is at most so much later than from.
func (s *instants) most(from, to instant, d time.Duration) { s.least(to, from, -d) }

func (s *instants) exact(from, to instant, d time.Duration) {
	s.least(from, to, d)
	s.most(from, to, d)
}

// solve finds the earliest instants, none of them negative, and says whether there are any: the
// longest ways through the limits, by Bellman and Ford.
func (s *instants) solve() bool {
	clear(s.at)
	for range len(s.at) + 1 {
		moved := false
		for _, l := range s.limits {
			if t := s.at[l.from] + l.least; s.at[l.to] < t {
				s.at[l.to], moved = t, true
			}
		}
		if !moved {
			return true
		}
	}
	return false
}

// round is a round of messages, and which of their answers the client hears, so that it comes to
// what the path says.
type round struct {
	nodes   int
	all     map[int]delivery // those that arrive
	unheard []int            // nodes that answer in time, and whose answers are too late
	last    int              // the node that is heard last, where none can be left out; 0: one is missing
	decides int              // the node whose vote ends it, of a lock that returns at a quorum; 0: all are waited for
}

// asked is the round of an attempt: where grants are counted, certain nodes are heard and no others.
func (t *telling) asked(a *attempt) round {
	if t.hardened() {
		return round{nodes: t.scope.Nodes, all: a.set, decides: a.decides}
	}
	if !a.counted {
		return roundState(t.scope.Nodes, a.set, a.won, false)
	}
	r := round{nodes: t.scope.Nodes, all: a.set}
	for n, d := range a.set {
		switch {
		case a.heard>>(n-1)&1 == 1:
			r.last = max(r.last, n)
		case d.inTime:
			r.unheard = append(r.unheard, n)
		}
	}
	if bits.OnesCount8(a.heard) < r.nodes {
		r.last = 0
	}
	return r
}

// roundState is a round that is won, definitely lost, or neither.
func roundState(nodes int, all map[int]delivery, won, lost bool) round {
	r := round{nodes: nodes, all: all}
	heard := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(n int) bool { return !all[n].inTime })
	agree := slices.DeleteFunc(slices.Clone(heard), func(n int) bool { return all[n].yes != won })
	against := slices.DeleteFunc(slices.Clone(heard), func(n int) bool { return all[n].yes == won })
	switch {
	case !won && !lost:
		r.unheard = heard
	case len(against) > 0:
		r.unheard = against
	case len(heard) < r.nodes:
	case r.nodes > 2: // there is a majority without one of them
		r.unheard = agree[len(agree)-1:]
	default:
		r.last = agree[0]
	}
	return r
}

// lasts is how long a round takes: until its time is up, for an answer is missing, or until some time
// before, when the last comes.
func (t *telling) lasts(r round) time.Duration {
	if r.last > 0 {
		return nodeTimeout - 2*t.gap
	}
	return nodeTimeout
}

// read sorts the path's steps by attempts.
func (t *telling) read() error {
	for i, s := range t.path {
		t.when = append(t.when, t.add())
		at := t.when[i]
		if s.Action == crashed || s.Action == jumped {
			t.faults = append(t.faults, faulty{s, at, t.add()})
		}
		if s.Client == 0 {
			continue
		}
		a := t.attempt(s.Client-1, s.Attempt-1)
		switch s.Action {
		case set:
			a.set[s.Node] = delivery{at, s.Yes, a.end < 0}
			if s.Yes && a.end < 0 {
				a.decides = s.Node
			}
		case extend:
			a.ext[s.Node] = delivery{at, s.Yes, a.extended < 0}
		case del:
			a.del[s.Node] = delivery{at, s.Yes, true}
		case acquired:
			a.end, a.won = at, true
			t.hear(a, s)
		case Raising:
			t.hear(a, s)
		case Raise:
			a.raised = append(a.raised, raise{s.Node, at})
		case Read:
			a.refused = !s.Yes
		case write:
			a.write = &delivery{at, s.Yes, !a.ended && t.attempts[s.Client-1][len(t.attempts[s.Client-1])-1] == a && (a.over == 0 || a.longer && a.over == 1)}
		case failed:
			a.end, a.ended = at, true
			a.release = at
		case Extending:
			a.extend, a.extends = at, true
		case Extended, extendFailed, extendLost:
			a.extended, a.longer, a.lost = at, s.Action == Extended, s.Action == extendLost
		case released:
			a.release, a.ended = at, true
		case over:
			a.late = a.late || a.end < 0
			a.over++
		case started, reply, writing:
		default:
			return fmt.Errorf("a step that can't be told yet: %v", s)
		}
	}
	t.complete()
	if err := t.returns(); err != nil {
		return err
	}
	return t.raises()
}

// hardened says whether the lock returns at a quorum.
func (t *telling) hardened() bool { return t.scope.Lock == hardenedLock }

// returns says whether a lock that returns at a quorum could do as the path has it: it has heard so
// many votes and no more. Its failures and extensions can't be told yet.
func (t *telling) returns() error {
	for _, a := range slices.Concat(t.attempts[0], t.attempts[1]) {
		votes, heard := 0, uint8(0)
		for n, d := range a.set {
			if d.yes && d.inTime {
				votes++
				heard |= 1 << (n - 1)
			}
		}
		if t.hardened() && (!a.won || a.extends || votes != t.scope.Nodes/2+1 || a.counted && a.heard != heard) {
			return fmt.Errorf("%w: a lock that returns at a quorum does not wait for more", errUntimed)
		}
	}
	return nil
}

// hear notes which counts make the token.
func (t *telling) hear(a *attempt, s Step) {
	if s.Heard > 0 {
		a.counted, a.heard, a.behind = true, s.Heard, s.Behind
	}
}

// raises says whether tokens are written back as no plan can prevent: at once, and answered.
func (t *telling) raises() error {
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

// attempt is a client's, which is new where the path has not spoken of it.
func (t *telling) attempt(c, n int) *attempt {
	for len(t.attempts[c]) <= n {
		t.attempts[c] = append(t.attempts[c], &attempt{start: t.add(), end: -1, extended: -1, release: -1,
			set: map[int]delivery{}, ext: map[int]delivery{}, del: map[int]delivery{}})
	}
	return t.attempts[c][n]
}

// complete adds what the search does without a word: a hold that is followed by another attempt
// has been released.
func (t *telling) complete() {
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
			case a.won && (n < len(t.attempts[c])-1 || len(a.del) > 0 || !t.both()):
				a.release, a.ended = t.add(), true
			case !a.won && !t.both():
				a.release, a.ended = a.end, true
			}
			a.sent = t.add()
			if a.late = a.late && a.won; a.late {
				a.pause = t.add()
			}
		}
	}
}

// works says when a client that holds the lock gives it back: when it has worked, and the resource
// has answered, for which it waits until its lease is over.
//
//	end ── held ──► sent ─────► write arrives ──► release
//	 reads           └─ or its lease is over ─────► release … the write arrives
func (t limits) works(c int, a *attempt) {
	held := t.held(c)
	if t.extends(c) { // the time that it takes comes on top
		held += t.lasts(roundState(t.scope.Nodes, a.ext, a.longer, a.lost))
	}
	t.exact(a.end, a.sent, held)
	switch {
	case t.scope.Property != resourceSafety:
		t.exact(a.end, a.release, held)
	case a.refused:
		t.exact(a.end, a.release, 0)
	case a.write != nil && a.write.inTime:
		t.exact(a.write.at, a.release, 0)
		t.most(t.lease(a), a.release, beliefWindow()-t.gap)
	default:
		t.exact(t.lease(a), a.release, beliefWindow())
	}
}

// lease is when the window began in which a client believes in the end.
func (t limits) lease(a *attempt) instant {
	switch {
	case a.longer:
		return a.extend
	case t.scope.Mistake == noElapsed:
		return a.end
	}
	return a.start
}

// resource is the order of what the resource sees: reads, which follow at once when a client has
// acquired, and writes, which were sent while it believed.
func (t limits) resource() {
	last := instant(-1)
	next := func(at instant) {
		if last >= 0 {
			t.least(last, at, t.gap)
		}
		last = at
	}
	for i, s := range t.path {
		if s.Client == 0 {
			continue
		}
		switch a := t.attempts[s.Client-1][s.Attempt-1]; s.Action {
		case acquired:
			if !t.reads(s) {
				next(a.end)
			}
		case Read:
			t.exact(a.end, t.when[i], 0)
			next(t.when[i])
		case write:
			t.least(a.sent, a.write.at, t.gap)
			next(a.write.at)
		}
	}
	for c := range t.attempts {
		for _, a := range t.attempts[c] {
			if a.won && !a.refused {
				t.most(t.lease(a), a.sent, beliefWindow()-t.gap)
				if a.write != nil && !a.write.inTime {
					t.least(a.release, a.write.at, t.gap)
				}
			}
		}
	}
}

// reads says whether the path speaks of a hold's read.
func (t limits) reads(of Step) bool {
	for _, s := range t.path {
		if s.Action == Read && s.Client == of.Client && s.Attempt == of.Attempt {
			return true
		}
	}
	return false
}

// later says that an attempt began after each lock that was given before its first SET arrived.
func (t limits) later() {
	var given []instant
	begun := map[*attempt]bool{}
	for _, s := range t.path {
		if s.Client == 0 {
			continue
		}
		switch a := t.attempts[s.Client-1][s.Attempt-1]; {
		case s.Action == acquired:
			given = append(given, a.end)
		case s.Action == set && !begun[a]:
			begun[a] = true
			for _, g := range given {
				t.least(g, a.start, t.gap)
			}
		}
	}
}
