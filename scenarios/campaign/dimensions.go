package campaign

import (
	"fmt"
	"math"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
)

// Dimensions lists all dimensions. The predictions are derived from the specification
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/): a lease is valid for
// the TTL minus the drift allowance, starting when the client begins its attempt.
var Dimensions = []Dimension{
	{
		Name: "pause", Doc: "pauses of a holder before its write", Property: verdict.MutualExclusion,
		Unit: seconds, Range: tenTTLRange, Edge: neverBreaks, base: contestedScenario(holdNone), plan: pausePlan,
	},
	{
		Name: "pause", Doc: "pauses of a holder before its write", Property: verdict.ResourceSafety,
		Unit: seconds, Range: tenTTLRange, Edge: lateWriteEdge, base: contestedScenario(holdNone), plan: pausePlan,
	},
	{
		Name: "delay", Doc: "delays of the requests that set the lock", Property: verdict.MutualExclusion,
		Unit: seconds, Range: tenTTLRange, Edge: neverBreaks, base: contestedScenario(holdPastLease), plan: delaySetsPlan,
	},
	{
		Name: "delay", Doc: "delays of a holder's write", Property: verdict.ResourceSafety,
		Unit: seconds, Range: tenTTLRange, Edge: delayedWriteEdge, base: contestedScenario(holdNone), plan: delayWritePlan,
	},
	{
		Name: "clock-jump", Doc: "clock jumps of a node", Property: verdict.MutualExclusion,
		Unit: seconds, Range: oneTTLRange, Edge: jumpEdge, base: contestedScenario(holdPastLease), plan: jumpPlan,
	},
	{
		Name: "drift", Doc: "fast node clocks, at rates", Property: verdict.MutualExclusion,
		Unit: rate, Range: func(s EnvelopeSetting) (float64, float64, float64) { return 1, 1 + 4*s.margin()/s.ttl() + 0.02, 1e-4 }, Edge: driftEdge, base: contestedScenario(holdPastLease), plan: driftPlan,
	},
	{
		Name: "restart-delay", Doc: "downtimes of crashed nodes without persistence", Property: verdict.MutualExclusion, LessIsWorse: true,
		Unit: seconds, Range: func(s EnvelopeSetting) (float64, float64, float64) { return 0, 1.2 * s.ttl(), s.resolution() }, Edge: returnEdge(faultDelay, "the age of the lock at the crash"), base: contestedScenario(holdPastLease), plan: restartPlan,
	},
	{
		Name: "crashes", Doc: "crashed nodes that lose the holder's key", Property: verdict.MutualExclusion,
		Unit: nodeCount, Range: nodeCountRange, Edge: func(s EnvelopeSetting) *predictedEdge { return exactEdge(s.quorum(), "the quorum") }, base: uncontestedScenario, plan: crashPlan,
	},
	{
		Name: "crashes", Doc: "stopped nodes", Property: availability,
		Unit: nodeCount, Range: nodeCountRange, Edge: func(s EnvelopeSetting) *predictedEdge { return exactEdge(s.Nodes-s.quorum()+1, "nodes - quorum + 1") }, base: briefScenario, plan: downPlan,
	},
	{
		Name: "fsync-always", Doc: "power losses with fsync always, by age of the lock,", Property: verdict.MutualExclusion, LessIsWorse: true,
		Unit: seconds, Range: shortAgeRange, Edge: neverBreaks, base: afterSyncScenario("always"), plan: powerLossPlan,
	},
	{
		Name: "fsync-everysec", Doc: "power losses with fsync everysec, by age of the lock,", Property: verdict.MutualExclusion, LessIsWorse: true,
		Unit: seconds, Range: shortAgeRange, Edge: unsyncedEdge, base: afterSyncScenario("everysec"), plan: powerLossPlan,
	},
	{
		Name: "fsync-no", Doc: "power losses with fsync no, by age of the lock,", Property: verdict.MutualExclusion, LessIsWorse: true,
		Unit: seconds, Range: func(s EnvelopeSetting) (float64, float64, float64) { return s.resolution(), s.lease(), s.resolution() }, Edge: returnEdge(outage, "the outage"), base: afterSyncScenario(`"no"`), plan: powerLossPlan,
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

// Scenario returns a scenario that tests the given value and expects nothing of the lock.
func (d Dimension) Scenario(s EnvelopeSetting, value float64, known scenario.KnownNames) (scenario.Scenario, error) {
	name := "envelope-" + d.Name
	text := fmt.Sprintf("name: %s\nclaim: The lock tolerates %s.\nsource: lockpick envelope\n%s", name, d.Doc, d.base(s))
	if value != d.noFault() {
		text += "plan:\n" + d.plan(s, value)
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

// resolution is the precision of a search for a time, in seconds: 1/10,000 of the TTL, but at least
// 1 ms, because Redis expires keys in whole milliseconds.
func (s EnvelopeSetting) resolution() float64 { return max(0.001, math.Round(s.ttl()/10)/1000) }

func tenTTLRange(s EnvelopeSetting) (low, high, step float64) { return 0, 10 * s.ttl(), s.resolution() }
func oneTTLRange(s EnvelopeSetting) (low, high, step float64) { return 0, s.ttl(), s.resolution() }
func shortAgeRange(s EnvelopeSetting) (low, high, step float64) {
	return s.resolution(), min(3, 0.8*s.lease()), s.resolution()
}
func nodeCountRange(s EnvelopeSetting) (low, high, step float64) { return 0, float64(s.Nodes), 1 }

// faultDelay is how long after the grant a fault strikes. outage is the downtime of a node that
// restarts immediately.
const faultDelay, outage = 10 * time.Millisecond, 10 * time.Millisecond

// startLead is how long before the first client's lease ends the second client starts trying.
// Earlier attempts would only fail.
const startLead = 250 * time.Millisecond

// firstSync is when a node first syncs in a run with a power loss: just after its clock reaches a
// full second.
const firstSync = 5001 * time.Millisecond

// formatDuration formats seconds for a scenario file, rounded to microseconds.
func formatDuration(seconds float64) string {
	return fmt.Sprintf("%dus", int64(math.Round(seconds*1e6)))
}

// nodeList returns the YAML list [ni, …, nj].
func nodeList(i, j int) string {
	var out []string
	for ; i <= j; i++ {
		out = append(out, fmt.Sprintf("n%d", i))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// sharedNodes lists the nodes that both clients reach when each reaches only a quorum. They decide
// who gets the lock.
func (s EnvelopeSetting) sharedNodes() string { return nodeList(s.Nodes-s.quorum()+1, s.quorum()) }

// baseScenario returns everything but the plan. Client c1 acquires the lock at start and works for
// hold. Client c2 starts trying shortly before c1's lease ends.
func (s EnvelopeSetting) baseScenario(persistence string, start time.Duration, reach1, reach2, hold string) string {
	fence := "none"
	if s.Fence {
		fence = "token"
	}
	secondStart := start.Seconds() + max(s.lease()-startLead.Seconds(), s.lease()/2)
	return fmt.Sprintf(`topology: {nodes: %d, persistence: %s}
lock: {kind: redlock, ttl: %v, drift: %g%%, timeout: %v, retry: %v..%v, fence: %t}
clients:
  c1: {reach: %s, hold: %s, start: %v}
  c2: {reach: %s, hold: 0s, start: %s}
workload: {kind: read-modify-write, keys: 1, fence: %s, think: 0s, cycles: 1}
expect: {mutual-exclusion: any, resource-safety: any}
`, s.Nodes, persistence, s.TTL, 100*s.Drift, s.Timeout, s.Retry.Min, s.Retry.Max, s.Fence, reach1, hold, start, reach2, formatDuration(secondStart), fence)
}

// contestedScenario returns a base scenario where each client reaches only a quorum, so the shared
// nodes decide who gets the lock.
func contestedScenario(hold func(EnvelopeSetting) string) func(EnvelopeSetting) string {
	return func(s EnvelopeSetting) string {
		return s.baseScenario("none", 0, nodeList(1, s.quorum()), nodeList(s.Nodes-s.quorum()+1, s.Nodes), hold(s))
	}
}

// afterSyncScenario is like contestedScenario, but the first client acquires the lock right after a
// sync, so that with fsync everysec the grant stays unsynced as long as possible.
func afterSyncScenario(persistence string) func(EnvelopeSetting) string {
	return func(s EnvelopeSetting) string {
		return s.baseScenario(persistence, firstSync+faultDelay, nodeList(1, s.quorum()), nodeList(s.Nodes-s.quorum()+1, s.Nodes), holdPastLease(s))
	}
}

// uncontestedScenario lets both clients reach all nodes.
func uncontestedScenario(s EnvelopeSetting) string {
	all := nodeList(1, s.Nodes)
	return s.baseScenario("none", 0, all, all, holdPastLease(s))
}

// briefScenario is like uncontestedScenario, but the clients stop trying after a second.
func briefScenario(s EnvelopeSetting) string {
	all := nodeList(1, s.Nodes)
	text := strings.Replace(s.baseScenario("none", 100*time.Millisecond, all, all, holdNone(s)), "cycles: 1}", "for: 1s}", 1)
	return strings.Replace(text, "resource-safety: any}", "resource-safety: any, vacuous: allowed}", 1)
}

// holdPastLease makes a client work until after its lease ends. holdNone makes it release the lock
// at once.
func holdPastLease(s EnvelopeSetting) string { return formatDuration(s.ttl() + 1) }
func holdNone(EnvelopeSetting) string        { return "0s" }

func planStep(when, fault string) string {
	return fmt.Sprintf("  - when: {%s}\n    fault: {%s}\n", when, fault)
}

var afterGrant = fmt.Sprintf("client: c1, event: acquired, after: %v", faultDelay)

func pausePlan(s EnvelopeSetting, v float64) string {
	return planStep("client: c1, point: between-check-and-write, nth: 1", "kind: pause, targets: [c1], for: "+formatDuration(v))
}

func delaySetsPlan(s EnvelopeSetting, v float64) (steps string) {
	for i := range s.quorum() {
		steps += planStep(fmt.Sprintf("link: c1-n%d, message: set, of: request, nth: 1", i+1), "kind: hold, for: "+formatDuration(v))
	}
	return steps
}

func delayWritePlan(s EnvelopeSetting, v float64) string {
	return planStep("link: c1-r1, message: write, of: request, nth: 1", "kind: hold, for: "+formatDuration(v))
}

func jumpPlan(s EnvelopeSetting, v float64) string {
	return planStep(afterGrant, "kind: clock-jump, targets: "+s.sharedNodes()+", by: "+formatDuration(v))
}

func driftPlan(s EnvelopeSetting, v float64) string {
	return planStep("at: 0s", fmt.Sprintf("kind: clock-rate, targets: %s, rate: %.6f", s.sharedNodes(), v))
}

func restartPlan(s EnvelopeSetting, v float64) string {
	return planStep(afterGrant, "kind: kill, targets: "+s.sharedNodes()+", for: "+formatDuration(max(v, 1e-3)))
}

func crashPlan(s EnvelopeSetting, v float64) string {
	return planStep(afterGrant, fmt.Sprintf("kind: kill, targets: %s, for: %v", nodeList(1, int(v)), outage))
}

func downPlan(s EnvelopeSetting, v float64) string {
	return planStep("at: 0s", fmt.Sprintf("kind: kill, targets: %s", nodeList(1, int(v))))
}

// powerLossPlan cuts the power of the shared nodes v seconds after the grant. It writes another key
// just before, because a power loss that loses no data tests nothing.
func powerLossPlan(s EnvelopeSetting, v float64) string {
	return planStep(fmt.Sprintf("at: %v", firstSync), "kind: touch, targets: "+s.sharedNodes()) +
		planStep("client: c1, event: acquired, after: "+formatDuration(v-0.0001), "kind: touch, targets: "+s.sharedNodes()) +
		planStep("client: c1, event: acquired, after: "+formatDuration(v), fmt.Sprintf("kind: power-loss, targets: %s, for: %v", s.sharedNodes(), outage))
}
