package campaign

import (
	"fmt"
	"math"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
)

// Dimensions lists all dimensions. Their predictions follow the specification
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/): from the start of the
// attempt, a lease is valid for the TTL minus the allowed drift.
var Dimensions = []Dimension{
	{
		Name: "pause", Doc: "pauses of a holder before its write", Property: verdict.MutualExclusion,
		Unit: seconds, Span: tenTTLs, Edge: nowhere, world: contest(briefly), steps: paused,
	},
	{
		Name: "pause", Doc: "pauses of a holder before its write", Property: verdict.ResourceSafety,
		Unit: seconds, Span: tenTTLs, Edge: lateWrite, world: contest(briefly), steps: paused,
	},
	{
		Name: "delay", Doc: "delays of the requests that set the lock", Property: verdict.MutualExclusion,
		Unit: seconds, Span: tenTTLs, Edge: nowhere, world: contest(wholly), steps: delayedSets,
	},
	{
		Name: "delay", Doc: "delays of a holder's write", Property: verdict.ResourceSafety,
		Unit: seconds, Span: tenTTLs, Edge: delayedWrite, world: contest(briefly), steps: writeDelayed,
	},
	{
		Name: "clock-jump", Doc: "clock jumps of a node", Property: verdict.MutualExclusion,
		Unit: seconds, Span: oneTTL, Edge: jump, world: contest(wholly), steps: jumped,
	},
	{
		Name: "drift", Doc: "fast node clocks, with a rate", Property: verdict.MutualExclusion,
		Unit: rate, Span: func(s EnvelopeSetting) (float64, float64, float64) { return 1, 1 + 4*s.margin()/s.ttl() + 0.02, 1e-4 }, Edge: drift, world: contest(wholly), steps: drifted,
	},
	{
		Name: "restart-delay", Doc: "downtimes of crashed nodes without persistence", Property: verdict.MutualExclusion, Less: true,
		Unit: seconds, Span: func(s EnvelopeSetting) (float64, float64, float64) { return 0, 1.2 * s.ttl(), s.step() }, Edge: comesBack(after, "the age of the lock at the crash"), world: contest(wholly), steps: restarted,
	},
	{
		Name: "crashes", Doc: "crashed nodes that lose the holder's key", Property: verdict.MutualExclusion,
		Unit: nodeCount, Span: anyNodes, Edge: func(s EnvelopeSetting) *envelopeEdge { return exact(s.quorum(), "the quorum") }, world: uncontested, steps: forgetful,
	},
	{
		Name: "crashes", Doc: "stopped nodes", Property: availability,
		Unit: nodeCount, Span: anyNodes, Edge: func(s EnvelopeSetting) *envelopeEdge { return exact(s.Nodes-s.quorum()+1, "nodes - quorum + 1") }, world: quick, steps: down,
	},
	{
		Name: "fsync-always", Doc: "power losses with fsync always, by age of the lock,", Property: verdict.MutualExclusion, Less: true,
		Unit: seconds, Span: soonAfter, Edge: nowhere, world: synced("always"), steps: poweredOff,
	},
	{
		Name: "fsync-everysec", Doc: "power losses with fsync everysec, by age of the lock,", Property: verdict.MutualExclusion, Less: true,
		Unit: seconds, Span: soonAfter, Edge: unsynced, world: synced("everysec"), steps: poweredOff,
	},
	{
		Name: "fsync-no", Doc: "power losses with fsync no, by age of the lock,", Property: verdict.MutualExclusion, Less: true,
		Unit: seconds, Span: func(s EnvelopeSetting) (float64, float64, float64) { return s.step(), s.lease(), s.step() }, Edge: comesBack(gone, "the outage"), world: synced(`"no"`), steps: poweredOff,
	},
}

// DimensionNames returns the names of the dimensions, without duplicates.
func DimensionNames() (names []string) {
	for _, d := range Dimensions {
		if n := len(names); n == 0 || names[n-1] != d.Name {
			names = append(names, d.Name)
		}
	}
	return names
}

// Scenario returns the scenario of a value. Its expectations allow any outcome.
func (d Dimension) Scenario(s EnvelopeSetting, value float64, known scenario.Known) (scenario.Scenario, error) {
	name := "envelope-" + d.Name
	text := fmt.Sprintf("name: %s\nclaim: The lock tolerates %s.\nsource: lockpick envelope\n%s", name, d.Doc, d.world(s))
	if value != d.none() {
		text += "plan:\n" + d.steps(s, value)
	}
	all, err := scenario.Parse(name+".yaml", []byte(text), known)
	if err != nil {
		return scenario.Scenario{}, err
	}
	return all[0], nil
}

func (s EnvelopeSetting) quorum() int     { return s.Nodes/2 + 1 }
func (s EnvelopeSetting) ttl() float64    { return s.TTL.Seconds() }
func (s EnvelopeSetting) margin() float64 { return s.Drift*s.ttl() + 0.002 }
func (s EnvelopeSetting) lease() float64  { return s.ttl() - s.margin() }

// resolution is the resolution in time: a ten-thousandth of the TTL, but at least the resolution of
// expiry in Redis.
func (s EnvelopeSetting) step() float64 { return max(0.001, math.Round(s.ttl()/10)/1000) }

func tenTTLs(s EnvelopeSetting) (low, high, step float64) { return 0, 10 * s.ttl(), s.step() }
func oneTTL(s EnvelopeSetting) (low, high, step float64)  { return 0, s.ttl(), s.step() }
func soonAfter(s EnvelopeSetting) (low, high, step float64) {
	return s.step(), min(3, 0.8*s.lease()), s.step()
}
func anyNodes(s EnvelopeSetting) (low, high, step float64) { return 0, float64(s.Nodes), 1 }

// faultDelay is the time from a grant to a fault that should hit the new lock. outage is the
// downtime of a node that restarts at once.
const after, gone = 10 * time.Millisecond, 10 * time.Millisecond

// startLead is how long before the end of the lease the other client starts to try. Earlier
// attempts would only fail.
const lead = 250 * time.Millisecond

// firstSync is when a node syncs for the first time in a run with a power loss: at the start of a
// second of its clock.
const powered = 5001 * time.Millisecond

// formatDuration formats seconds for a scenario file, in whole microseconds.
func span(seconds float64) string {
	return fmt.Sprintf("%dus", int64(math.Round(seconds*1e6)))
}

// nodeList lists the nodes from i to j.
func nodes(i, j int) string {
	var out []string
	for ; i <= j; i++ {
		out = append(out, fmt.Sprintf("n%d", i))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// sharedNodes are the nodes that both clients reach if each reaches only a quorum. They decide who
// gets the lock.
func (s EnvelopeSetting) shared() string { return nodes(s.Nodes-s.quorum()+1, s.quorum()) }

// baseScenario is common to all scenarios. Of two clients, the first has the lock from begin on,
// and works for hold. The second tries to get the lock from shortly before the first one's lease
// ends.
func (s EnvelopeSetting) world(persistence string, begin time.Duration, reach1, reach2, hold string) string {
	fence := "none"
	if s.Fence {
		fence = "token"
	}
	second := begin.Seconds() + max(s.lease()-lead.Seconds(), s.lease()/2)
	return fmt.Sprintf(`topology: {nodes: %d, persistence: %s}
lock: {kind: redlock, ttl: %v, drift: %g%%, timeout: %v, retry: %v..%v, fence: %t}
clients:
  c1: {reach: %s, hold: %s, start: %v}
  c2: {reach: %s, hold: 0s, start: %s}
workload: {kind: read-modify-write, keys: 1, fence: %s, think: 0s, cycles: 1}
expect: {mutual-exclusion: any, resource-safety: any}
`, s.Nodes, persistence, s.TTL, 100*s.Drift, s.Timeout, s.Retry.Min, s.Retry.Max, s.Fence, reach1, hold, begin, reach2, span(second), fence)
}

// contested is a scenario in which the shared nodes decide who gets the lock.
func contest(hold func(EnvelopeSetting) string) func(EnvelopeSetting) string {
	return func(s EnvelopeSetting) string {
		return s.world("none", 0, nodes(1, s.quorum()), nodes(s.Nodes-s.quorum()+1, s.Nodes), hold(s))
	}
}

// afterSync is like contested, but the first client acquires just after the nodes have synced, so
// that everysec syncs the grant as late as possible.
func synced(persistence string) func(EnvelopeSetting) string {
	return func(s EnvelopeSetting) string {
		return s.world(persistence, powered+after, nodes(1, s.quorum()), nodes(s.Nodes-s.quorum()+1, s.Nodes), wholly(s))
	}
}

// In uncontested, both clients reach all nodes. In brief, they also try for only a second.
func uncontested(s EnvelopeSetting) string {
	all := nodes(1, s.Nodes)
	return s.world("none", 0, all, all, wholly(s))
}

func quick(s EnvelopeSetting) string {
	all := nodes(1, s.Nodes)
	text := strings.Replace(s.world("none", 100*time.Millisecond, all, all, briefly(s)), "cycles: 1}", "for: 1s}", 1)
	return strings.Replace(text, "resource-safety: any}", "resource-safety: any, vacuous: allowed}", 1)
}

// holdPastLease is the working time of a client that should believe in its lock until its lease
// ends. holdNone is that of a client without work.
func wholly(s EnvelopeSetting) string { return span(s.ttl() + 1) }
func briefly(EnvelopeSetting) string  { return "0s" }

func step(when, fault string) string {
	return fmt.Sprintf("  - when: {%s}\n    fault: {%s}\n", when, fault)
}

var granted = fmt.Sprintf("client: c1, event: acquired, after: %v", after)

func paused(s EnvelopeSetting, v float64) string {
	return step("client: c1, point: between-check-and-write, nth: 1", "kind: pause, targets: [c1], for: "+span(v))
}

func delayedSets(s EnvelopeSetting, v float64) (steps string) {
	for i := range s.quorum() {
		steps += step(fmt.Sprintf("link: c1-n%d, message: set, of: request, nth: 1", i+1), "kind: hold, for: "+span(v))
	}
	return steps
}

func writeDelayed(s EnvelopeSetting, v float64) string {
	return step("link: c1-r1, message: write, of: request, nth: 1", "kind: hold, for: "+span(v))
}

func jumped(s EnvelopeSetting, v float64) string {
	return step(granted, "kind: clock-jump, targets: "+s.shared()+", by: "+span(v))
}

func drifted(s EnvelopeSetting, v float64) string {
	return step("at: 0s", fmt.Sprintf("kind: clock-rate, targets: %s, rate: %.6f", s.shared(), v))
}

func restarted(s EnvelopeSetting, v float64) string {
	return step(granted, "kind: kill, targets: "+s.shared()+", for: "+span(max(v, 1e-3)))
}

func forgetful(s EnvelopeSetting, v float64) string {
	return step(granted, fmt.Sprintf("kind: kill, targets: %s, for: %v", nodes(1, int(v)), gone))
}

func down(s EnvelopeSetting, v float64) string {
	return step("at: 0s", fmt.Sprintf("kind: kill, targets: %s", nodes(1, int(v))))
}

// powerLossPlan makes the shared nodes lose power at a time after the grant. It writes something
// else just before, because a power loss without lost data tests nothing.
func poweredOff(s EnvelopeSetting, v float64) string {
	return step(fmt.Sprintf("at: %v", powered), "kind: touch, targets: "+s.shared()) +
		step("client: c1, event: acquired, after: "+span(v-0.0001), "kind: touch, targets: "+s.shared()) +
		step("client: c1, event: acquired, after: "+span(v), fmt.Sprintf("kind: power-loss, targets: %s, for: %v", s.shared(), gone))
}
