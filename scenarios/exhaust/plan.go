package exhaust

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/client"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
	"lockpick/scenarios/outcome"
)

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
	FencingOrder:    "A lock's fencing token is not above that of one that was given before.",
}

// scenario is the path with its instants.
func (t storyPlay) scenario(name string, known scenario.Known) (scenario.Scenario, error) {
	kind := "redlock"
	switch {
	case t.scope.Mistake != "":
		kind = "broken, mistake: " + t.scope.Mistake
	case t.scope.Quarantine:
		kind = Hardened + ", options: {quarantine: yes}"
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
	text := fmt.Sprintf(head, name, claims[property], t.scope.Nodes, persistence, kind, storyTtl, storyTimeout, retry, t.scope.Attempts, t.scope.Fence, fence)
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

func (t storyPlay) extending() bool {
	return t.extends(0) || t.extends(1)
}

// client is when a client starts, how often it acquires, and how long it holds the lock.
func (t storyPlay) client(c int, k *scenario.Client) {
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
func (t storyPlay) hold(c int) time.Duration {
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
func (t storyPlay) never() time.Duration {
	return (slices.Max(t.at) + 30*time.Second).Round(time.Second)
}

// plan is the faults, and each message that arrives when it does or never.
func (t storyPlay) plan() nemesis.Plan {
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
				out = append(out, t.messages(c, "extend", prolonged, a.extend, storyAsking(t.scope.Nodes, a.ext, a.longer, a.lost))...)
			}
			if a.ended {
				deleted++
				out = append(out, t.messages(c, "release", deleted, a.release, storyAsking(t.scope.Nodes, a.del, false, false))...)
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
func (t storyPlay) writing(c, nth int, a *attempt) nemesis.Step {
	late := t.never()
	if a.write != nil {
		late = t.at[a.write.at] - t.at[a.sent]
	}
	return nemesis.Step{
		When:  nemesis.Trigger{Message: &nemesis.OnMessage{Link: fmt.Sprintf("c%d-%s", c+1, scenario.ResourceName), Message: "write", Of: nemesis.Request, Nth: nth}},
		Fault: nemesis.Fault{Kind: nemesis.Hold, For: &late},
	}
}

// further are attempts of which the path does not speak: a client that has failed makes them, and
// they come to nothing.
func (t storyPlay) further(c int) (out nemesis.Plan) {
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
func (t storyPlay) prolongs(c, n int) bool {
	a := t.attempts[c][n]
	return a.won && t.extending() && (a.extends || t.hold(c) >= t.after)
}

// messages is a round of messages to all nodes, the nth of its kind: those of the path arrive when
// they do there, and no others; and its answers are heard, are too late, or are heard last.
func (t storyPlay) messages(c int, kind string, nth int, sent instant, r round) (out nemesis.Plan) {
	hold := func(node int, of string, nth int, d time.Duration) {
		out = append(out, nemesis.Step{
			When:  nemesis.Trigger{Message: &nemesis.OnMessage{Link: fmt.Sprintf("c%d-n%d", c+1, node), Message: kind, Of: of, Nth: nth}},
			Fault: nemesis.Fault{Kind: nemesis.Hold, For: &d},
		})
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
func (t storyPlay) reply(c int, kind string, node int, to delivery) int {
	nth := 1
	for _, a := range t.attempts[c] {
		all := map[string]map[int]delivery{"set": a.set, "extend": a.ext, "release": a.del}[kind]
		if d, arrives := all[node]; arrives && t.at[d.at] < t.at[to.at] {
			nth++
		}
	}
	return nth
}

func (t storyPlay) fault(f faulty) nemesis.Plan {
	targets := []string{fmt.Sprintf("n%d", f.Node)}
	step := nemesis.Step{When: t.trigger(f, t.at[f.at]), Fault: nemesis.Fault{Kind: "kill", Targets: targets, For: new(10 * time.Millisecond)}}
	switch {
	case f.Action == jumped:
		step.Fault = nemesis.Fault{Kind: "clock-jump", Targets: targets, By: storyTtl + time.Second}
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
func (t storyPlay) trigger(f faulty, when time.Duration) nemesis.Trigger {
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

// Caption is a path in words, a line for each step.
func Caption(path []Step) string {
	var b strings.Builder
	for i, s := range path {
		fmt.Fprintf(&b, "%3d  %v\n", i+1, s)
	}
	return b.String()
}
